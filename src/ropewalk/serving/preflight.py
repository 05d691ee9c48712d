"""What can be known before a server starts: answered here in a moment, or by a failed start in minutes.

Each check is a small function of the plan, the launch and the inspection; none starts anything but the
engine's own ``--help``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ropewalk.engines import Engine, engine_of
from ropewalk.errors import CheckpointError, EngineError
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.records import Inspection
from ropewalk.planner.records import DeviceShare, Launch, Plan
from ropewalk.planner.rope.versions import RULES, has, parse_version
from ropewalk.serving.connectivity import reach_checks
from ropewalk.serving.engines import adapter_of
from ropewalk.serving.engines.adapter import Outcome
from ropewalk.serving.engines.known_flags import known_flags, unknown_flags
from ropewalk.serving.formats import format_finding
from ropewalk.serving.host.devices import find_devices
from ropewalk.serving.host.process_memory import largest_process
from ropewalk.serving.process.members import nodes_here
from ropewalk.serving.process.ports import require_free
from ropewalk.serving.records import SINGLE_NODE, Topology
from ropewalk.units import format_bytes

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "tokenizer_config.json")
_TEMPLATES = ("chat_template.jinja", "chat_template.json")
_TITLES = {"gguf": "GGUF", "safetensors": "safetensors"}
_FAILURES = {"memory": "does_not_fit", "flags": "unknown_flag", "port": "port_in_use"}
# Without these a file of the right format cannot be served; other errors are for the plan to weigh.
_INCOMPLETE = frozenset({"truncated_payload", "missing_shards", "lfs_pointer", "index_tensor_missing"})


@dataclass(frozen=True, slots=True)
class PreflightItem:
    """One check. ``ok`` is None where it could not be made, or where neither answer is wrong."""

    name: str
    ok: bool | None
    message: str


class PreflightError(EngineError):
    """A start that is known to fail was not made; ``items`` are all checks, ``code`` tells the first."""

    exit_status = 1  # a verdict, not a failure of the engine
    http_status = 409

    def __init__(self, items: Sequence[PreflightItem]) -> None:
        failed = [item for item in items if item.ok is False]
        reasons = "; ".join(f"{item.name}: {item.message}" for item in failed)
        super().__init__(
            f"not started: {reasons}",
            code=_FAILURES.get(failed[0].name, "preflight_failed"),
            where={"failed": [item.name for item in failed]},
        )
        self.items = tuple(items)


@dataclass(frozen=True, slots=True)
class _Flight:
    plan: Plan
    launch: Launch
    inspection: Inspection
    spread: Topology

    @property
    def model(self) -> Path:
        return Path(self.launch.model)

    @property
    def engine(self) -> Engine:
        return engine_of(self.launch.engine)

    @property
    def is_gguf(self) -> bool:
        return self.model.suffix == ".gguf" or self.inspection.checkpoint.format == "gguf"


def preflight(
    plan: Plan, launch: Launch, inspection: Inspection, *, spread: Topology = SINGLE_NODE
) -> Iterator[PreflightItem]:
    """Every check, in the order in which a start would fail, each when it has been made: asking an engine for
    its flags takes a moment."""
    flight = _Flight(plan, launch, inspection, spread)
    for name, check in _CHECKS.items():
        yield PreflightItem(name, *check(flight))
    for name, reach in reach_checks(plan.request, launch, spread).items():
        yield PreflightItem(name, *reach())


def require_passed(items: Sequence[PreflightItem]) -> None:
    """Raise :class:`PreflightError` if any check failed; one that could not be made is no failure."""
    if any(item.ok is False for item in items):
        raise PreflightError(items)


def _checkpoint(flight: _Flight) -> Outcome:
    """Whether this engine reads this format, and all of the checkpoint is there."""
    model, engine = flight.model, flight.engine
    wrong = format_finding(flight.inspection, engine.name)
    if wrong is not None:
        return False, wrong.message
    if not model.exists():
        if not engine.reads_hub:
            return False, f"{model} does not exist"
        return None, f"{model} is not on this machine; {engine.title} will fetch it from the Hub"
    if flight.inspection.checkpoint.format == "config":
        return False, f"{model} has a config and no weights"
    broken = [
        one for one in flight.inspection.findings if one.code in _INCOMPLETE and one.severity == "error"
    ]
    if broken:
        return None if flight.plan.request.allow_broken else False, broken[0].message
    return True, f"{flight.launch.found_build.name} reads {_TITLES[engine.formats[0]]}"


def _flags(flight: _Flight) -> Outcome:
    build = flight.launch.found_build
    known = known_flags(build)
    if known is None:
        return None, f"{build.name} does not say which flags it knows"
    unknown = unknown_flags(flight.launch.argv, known)
    if unknown:
        return False, f"{build.name} {build.version} does not know {', '.join(unknown)}"
    return True, f"{build.name} {build.version} knows every flag of the command"


def _rope(flight: _Flight) -> Outcome:
    """Whether this build takes the scaling as the version does that was planned for."""
    rope, build, planned = flight.plan.rope, flight.launch.found_build, flight.plan.request.engine_version
    if rope.decision == "none" and flight.launch.override_context_len is None:
        return True, "positions as trained"
    for rule in RULES:
        if rule.engine == build.engine and has(rule, planned) != has(rule, build.version):
            return False, f"planned for {build.engine} {planned}, this is {build.version}: {rule.change}"
    if parse_version(build.version, build.engine) is None:
        return None, f"{build.name} does not tell its version: it is taken for a new one"
    kind = "YaRN" if rope.type == "yarn" else rope.type
    scaling = f"{kind} {rope.factor:g}" if rope.factor else rope.decision
    return True, f"{scaling}, as flags of {build.engine} {build.version}"


def _memory(flight: _Flight) -> Outcome:
    """What is free now against the upper end of the plan, on the device that lacks most."""
    free = {device.id: device.free_bytes for device in find_devices()}
    needs: dict[str, int] = {}
    for share in _shares_here(flight):
        needs[_device_id(share)] = needs.get(_device_id(share), 0) + _need(share)
    lacks = {name: need - (free.get(name) or 0) for name, need in needs.items()}
    if not needs or any(free.get(name) is None for name in needs):
        return None, "the system does not say how much memory is free"
    name = max(lacks, key=lacks.__getitem__)
    said = f"up to {format_bytes(needs[name])} on {name}, {format_bytes(free[name] or 0)} are free now"
    if lacks[name] <= 0:
        return True, said
    other = largest_process() if name == "cpu" else None
    holder = f"; process {other.pid} ({other.name}) holds {format_bytes(other.bytes)}" if other else ""
    return False, said + holder


def _shares_here(flight: _Flight) -> list[DeviceShare]:
    """What this machine has to hold: not what other nodes, Ray or RPC servers do."""
    if flight.spread.executor == "ray":
        return []
    here = nodes_here(flight.launch, flight.spread.launcher)
    return [
        share
        for share in flight.plan.memory.per_device
        if not share.device.startswith("rpc")
        and (not flight.launch.nodes or share.place is None or share.place.node in here)
    ]


def _device_id(share: DeviceShare) -> str:
    """The plan counts GPUs whoever made them; CUDA ones are those that can be asked. Ranks on the processor
    share the host's memory."""
    kind, _, number = share.device.partition(":")
    return f"cuda:{number}" if kind == "gpu" else kind


def _need(share: DeviceShare) -> int:
    return share.total_bytes if share.high_bytes is None else share.high_bytes


def _port(flight: _Flight) -> Outcome:
    launch = flight.launch
    if launch.port == 0:
        return True, "a free port will be taken"
    try:
        require_free(launch.port, host=launch.host)
    except EngineError as error:
        return False, error.message
    return True, f"port {launch.port} on {launch.host} is free"


def _devices(flight: _Flight) -> Outcome:
    """Whether the engine has the devices of the plan, and can deal the model out to them."""
    adapter = adapter_of(flight.engine.name)
    return adapter.check_devices(flight.plan, flight.launch, flight.inspection, flight.spread)


def _tokenizer(flight: _Flight) -> Outcome:
    if flight.is_gguf:
        name = _gguf_key(flight.model, "tokenizer.ggml.model")
        return (
            (True, f"in the file ({name})")
            if name not in (None, "no_vocab")
            else (False, "the file has none")
        )
    if not flight.model.is_dir():
        return None, "the checkpoint is not on this machine"
    found = next((name for name in _TOKENIZERS if (flight.model / name).is_file()), None)
    return (True, f"{found} beside the weights") if found else (False, f"none of {', '.join(_TOKENIZERS)}")


def _template(flight: _Flight) -> Outcome:
    """A base model has none, and is asked in another form: no mistake, but good to know."""
    if flight.is_gguf:
        found = _gguf_key(flight.model, "tokenizer.chat_template") is not None
    else:
        found = any((flight.model / name).is_file() for name in _TEMPLATES) or _configured(flight.model)
    return (
        (True, "the checkpoint brings one") if found else (None, "none: prompts are continued as plain text")
    )


def _gguf_key(path: Path, key: str) -> object:
    try:
        return open_checkpoint(path).gguf.get(key)
    except CheckpointError:
        return None


def _configured(folder: Path) -> bool:
    """Older checkpoints keep the template in ``tokenizer_config.json``."""
    try:
        config = json.loads((folder / "tokenizer_config.json").read_text())
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and bool(config.get("chat_template"))


_CHECKS: dict[str, Callable[[_Flight], Outcome]] = {
    "checkpoint": _checkpoint,
    "tokenizer": _tokenizer,
    "chat_template": _template,
    "flags": _flags,
    "rope": _rope,
    "devices": _devices,
    "memory": _memory,
    "port": _port,
}
