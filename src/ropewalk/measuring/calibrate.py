"""A run's timings become the machine's speed, kept beside it, and are found again for a plan."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ropewalk import jsonio
from ropewalk.engines import EngineBuild
from ropewalk.errors import RunStoreError
from ropewalk.inspector.records import Inspection
from ropewalk.measuring.fingerprint import fingerprint
from ropewalk.measuring.records import ArmResult, Trial
from ropewalk.measuring.store import RunStore
from ropewalk.planner.calibration import Calibration, TimedPrompt, calibrate
from ropewalk.planner.records import PlanRequest
from ropewalk.serving.host.devices import Hardware, this_machine
from ropewalk.serving.host.probe import Host, host_device
from ropewalk.units import format_tokens

# What the speed of one sequence depends on besides its length.
_OPTIONS = (
    "cache_type_k", "cache_type_v", "tensor_parallel", "pipeline_parallel", "max_batched_tokens", "batch",
    "ubatch", "flash_attn", "swa_full", "gpu_layers", "mtp",
)  # fmt: skip
# And where it is cut over several devices or has company; left out of the key where it is not.
_CUTS = (
    "data_parallel", "expert_parallel", "decode_context_parallel", "nodes", "layer_partition", "tensor_split",
    "rpc_servers", "block_size", "draft", "projector",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CalibrationKey:
    """What a measured speed is of; with any other it says nothing."""

    machine: str
    engine: str
    version: str | None
    build: str | None
    checkpoint: str
    device: str
    threads: int | None
    options: dict[str, Any]

    def text(self) -> str:
        """The key as it stands in the store."""
        return jsonio.dumps(self, indent=None)


def key_of(
    request: PlanRequest,
    *,
    build: EngineBuild,
    device: str,
    machine: Hardware,
    checkpoint: str,
    threads: int | None,
) -> CalibrationKey:
    """The key of what ``request`` serves: ``checkpoint`` by fingerprint, ``device`` as the plan names it."""
    return CalibrationKey(
        machine=machine_fingerprint(machine),
        engine=build.name,
        version=build.version,
        build=build.build,
        checkpoint=checkpoint,
        device=device,
        threads=threads,
        options={name: getattr(request, name) for name in _OPTIONS} | _cuts(request),
    )


def _cuts(request: PlanRequest) -> dict[str, Any]:
    whole = PlanRequest(request.context_len, request.engine)
    given = {name: getattr(request, name) for name in _CUTS}
    return {name: value for name, value in given.items() if value != getattr(whole, name)}


def machine_fingerprint(machine: Hardware) -> str:
    """``sha256:...`` over what computes: processor, cores, devices.

    Left out: memory and system, which change with a container's limit and an update.
    """
    what = jsonio.dumps([machine.cpu, machine.cores, machine.devices], indent=None)
    return f"sha256:{hashlib.sha256(what.encode()).hexdigest()}"


def calibration_of(run_id: str, arms: Iterable[ArmResult], trials: Iterable[Trial]) -> Calibration | None:
    """The speed that a run's trials show, all arms together; None where fewer than two lengths were timed."""
    work = {(arm.arm, one.length): one for arm in arms for one in arm.work}
    timed = [(work[trial.arm, trial.length], trial) for trial in trials if (trial.arm, trial.length) in work]
    prompts = [
        TimedPrompt(one, trial.prefill_seconds)
        for one, trial in timed
        if trial.cached_tokens == 0 and trial.prefill_seconds and trial.outcome != "invalid"
    ]
    lengths = sorted({prompt.work.length for prompt in prompts})
    if not lengths:
        return None
    span = " to ".join(dict.fromkeys(format_tokens(length) for length in (lengths[0], lengths[-1])))
    return calibrate(
        prompts,
        decode_rates=[
            one.decode.bytes_per_token * trial.decode_tokens_per_second
            for one, trial in timed
            if trial.decode_tokens_per_second
        ],
        source=f"run {run_id}, {len(prompts)} prompts of {span} tokens",
    )


def find_calibration(
    inspection: Inspection, request: PlanRequest, here: Host, *, store: Path
) -> Calibration | None:
    """The speed measured of just what would be served here, with the engine's own choice of threads.

    None where nothing was measured, or for another machine or version than is here. A store that cannot be
    read leaves a plan without a prediction, which is no reason to refuse the plan.
    """
    device, build = host_device(request, here), here.build
    if device is None or build is None or request.engine_version not in (None, build.version):
        return None
    if not store.is_file():
        return None
    try:
        with RunStore(store) as runs:
            if not runs.has_calibrations():
                return None
            weights = fingerprint(inspection.checkpoint.source, inspection.checkpoint.files)
            key = key_of(
                request,
                build=build,
                device=device.id,
                machine=this_machine(),
                checkpoint=weights,
                threads=None,
            )
            return runs.calibration(key.text())
    except RunStoreError:
        return None
