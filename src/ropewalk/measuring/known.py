"""What stored runs say of a cache type and of speed: where it was measured, no rule is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ropewalk.engines import EngineName
from ropewalk.errors import RunStoreError
from ropewalk.inspector.records import Inspection
from ropewalk.measuring.calibrate import find_calibration
from ropewalk.measuring.fingerprint import fingerprint
from ropewalk.measuring.recall.statistics import BAR_POINT
from ropewalk.measuring.recall.summary import by_length
from ropewalk.measuring.store import RunStore
from ropewalk.planner.cache_costs import CacheCost, Loss
from ropewalk.planner.calibration import Calibration
from ropewalk.planner.choose import NOTHING_KNOWN, Known
from ropewalk.planner.records import PlanRequest
from ropewalk.serving.host.probe import Host
from ropewalk.units import format_tokens

# Of the share of facts that is found with two bytes a value, what another type may miss.
_NONE, _LITTLE = 0.05, 0.15
_WIDE = frozenset({"auto", "f16", "bf16", "f32"})
_RUNS = 200  # the newest
Key = tuple[str, str, str]  # fingerprint, engine, cache type


@dataclass(frozen=True, slots=True)
class _Recall:
    """Of one arm at its longest length."""

    run_id: str
    length: int
    share: float
    trials: int


def known_of(store: Path, hosts: Callable[[EngineName], Host]) -> Known:
    """What the runs of ``store`` have measured; a store that cannot be read says nothing."""
    if not store.is_file():
        return NOTHING_KNOWN
    try:
        with RunStore(store) as runs:
            is_timed = runs.has_calibrations()
            seen = dict(
                reversed([pair for run in runs.runs()[:_RUNS] for pair in _recalls(runs, run.run_id)])
            )
    except RunStoreError:
        return NOTHING_KNOWN

    def cache_cost(inspection: Inspection, engine: EngineName, name: str) -> CacheCost | None:
        return _cost(seen, inspection, engine, name) if seen else None

    def speed(inspection: Inspection, request: PlanRequest) -> Calibration | None:
        if not is_timed:
            return None
        return find_calibration(inspection, request, hosts(request.engine), store=store)

    return Known(cache_cost, speed)


def _recalls(runs: RunStore, run_id: str) -> Iterator[tuple[Key, _Recall]]:
    """The recall of each arm of a run that has ended, by what it served."""
    run = runs.load(run_id)
    names = {run.settings.get("plan", {}).get(field, "auto") for field in ("cache_type_k", "cache_type_v")}
    if run.status != "finished" or len(names) != 1:
        return
    (common,) = names
    trials = runs.trials(run_id)
    for arm in run.arms:
        scores = by_length(trial for trial in trials if trial.arm == arm.arm)
        if scores and arm.launch is not None:
            last = scores[-1]
            own = arm.arm.partition("+")[2]
            key = (run.checkpoint_fingerprint, arm.launch.engine, _plain(own or common))
            yield key, _Recall(run.run_id, last.length, last.share, last.trials)


def _plain(name: str) -> str:
    """Types of two bytes a value or more are one."""
    return "auto" if name in _WIDE else name


def _cost(seen: dict[Key, _Recall], inspection: Inspection, engine: str, name: str) -> CacheCost | None:
    checkpoint = inspection.checkpoint
    weights = fingerprint(checkpoint.source, checkpoint.files)
    found = seen.get((weights, engine, _plain(name)))
    base = seen.get((weights, engine, "auto"))
    if found is None:
        return None
    loss = _loss(found, base)
    if loss is None:
        return None
    source = f"run {found.run_id}, {found.trials} prompts of {format_tokens(found.length)} tokens"
    return CacheCost(loss, "measured", source, found.share)


def _loss(found: _Recall, base: _Recall | None) -> Loss | None:
    """Against two bytes a value on prompts as long; alone only what recalls enough says something."""
    if base is None or base.length != found.length:
        return "none" if found.share >= BAR_POINT else None
    missed = base.share - found.share
    return "none" if missed <= _NONE else "little" if missed <= _LITTLE else "visible"
