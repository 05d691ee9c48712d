"""The first candidates of a choice served and measured; the ranking then follows what was seen.

Each candidate is a run of its own in the store: one that is there already is not measured again, one that
was cut off goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ropewalk.engines import EngineBuild
from ropewalk.errors import EngineMissingError, RopewalkError, UsageError
from ropewalk.findings import Finding, by_severity
from ropewalk.inspector.checkpoint import engine_file
from ropewalk.inspector.records import Inspection
from ropewalk.measuring.arm_run import StartServer
from ropewalk.measuring.events import Event
from ropewalk.measuring.fingerprint import fingerprint
from ropewalk.measuring.measure import run_measurement
from ropewalk.measuring.records import JUDGED, Measurement
from ropewalk.measuring.settings import MeasureSettings
from ropewalk.measuring.store import RunStore
from ropewalk.planner.choice import Choice, Option, OptionRun
from ropewalk.planner.choose import order
from ropewalk.planner.options import ServerOptions, server_options
from ropewalk.serving.engines import pick_engine

# Of another machine, or of this moment: what a run is the same without.
_NOT_OF_THE_RUN = ("memory_bytes", "gpu", "gpus_per_node", "engine_version", "cache_type_k", "cache_type_v")


@dataclass(frozen=True, slots=True)
class Measuring:
    """How candidates are measured: ``count`` of them, with these settings, told to ``on_event``; ``start``
    starts a server in place of the engine's own launcher."""

    count: int
    settings: MeasureSettings
    on_event: Callable[[Event], None] | None = None
    start: StartServer | None = None


def measure_first(choice: Choice, models: Sequence[Inspection], how: Measuring, store: RunStore) -> Choice:
    """The choice ranked anew after its first ``how.count`` answers were measured.

    A candidate that cannot be served is a finding, and comes after those that can. Raises
    :class:`UsageError` where an answer is not for this machine, :class:`EngineMissingError`.
    """
    chosen = [option for option in choice.options if option.works][: how.count]
    options, findings = list(choice.options), list(choice.findings)
    for option in chosen:
        model = next(one for one in models if one.checkpoint.source == option.checkpoint)
        try:
            run = _run(option, model, how, store)
        except (UsageError, EngineMissingError):
            raise
        except RopewalkError as error:
            findings.append(Finding(error.code, "warning", error.message, {**error.where, **_of(option)}))
            run = OptionRun(None, finished=False)
        options[options.index(option)] = replace(option, run=run)
    return replace(choice, options=tuple(sorted(options, key=order)), findings=by_severity(findings))


def _of(option: Option) -> dict[str, Any]:
    return {"checkpoint": option.checkpoint, "engine": option.engine, "cache_type": option.cache_type}


def _run(option: Option, model: Inspection, how: Measuring, store: RunStore) -> OptionRun:
    """The run of one candidate: found in the store, taken up, or made."""
    build = pick_engine(option.engine)
    settings = replace(how.settings, plan=_server(option))
    weights = engine_file(option.checkpoint)
    arm = f"auto+{option.cache_type}" if option.cache_type != "auto" else "auto"
    found = _stored(store, option, arm, settings, fingerprint(weights, model.checkpoint.files), build)
    if found is not None and found.status == "finished":
        return run_of(found, arm)
    measured = run_measurement(
        model,
        model=weights,
        build=build,
        context_len=option.context_len,
        arms=(arm,),
        settings=settings,
        store=store,
        on_event=how.on_event,
        resume=found.run_id if found else None,
        start=how.start,
    )
    if measured.status == "interrupted":
        raise KeyboardInterrupt
    return run_of(measured, arm)


def _server(option: Option) -> ServerOptions:
    """What the server is asked for; the cache type is in the arm's name."""
    given = server_options(option.request)
    return {name: value for name, value in given.items() if name not in _NOT_OF_THE_RUN}  # type: ignore[return-value]


def _stored(
    store: RunStore,
    option: Option,
    arm: str,
    settings: MeasureSettings,
    weights: str,
    build: EngineBuild,
) -> Measurement | None:
    """The newest run of just this candidate that has ended or was cut off."""
    for one in store.runs():
        if one.target_len != option.context_len or one.status == "running":
            continue
        run = store.load(one.run_id)
        same = (run.checkpoint_fingerprint, run.settings.get("arms"), run.settings.get("plan"))
        if same == (weights, [arm], settings.plan) and _is_of(run, build):
            return run
    return None


def _is_of(run: Measurement, build: EngineBuild) -> bool:
    launches = [arm.launch for arm in run.arms if arm.launch is not None]
    return all((one.engine, one.engine_version) == (build.engine, build.version) for one in launches)


def run_of(run: Measurement, arm: str) -> OptionRun:
    """What a run says of a candidate, in short."""
    found = next((one for one in run.arms if one.arm == arm), None)
    cells = found.cells if found else ()
    length = max((cell.length for cell in cells if cell.low is not None), default=None)
    last = [cell for cell in cells if cell.length == length and cell.low is not None]
    trials = sum(sum(cell.outcomes.get(name, 0) for name in JUDGED) for cell in last)
    speed = found.speed[-1] if found and found.speed else None
    measured = sum(term.measured_bytes or 0 for term in found.memory) if found else 0
    return OptionRun(
        run.run_id,
        finished=run.status == "finished",
        length=length,
        recall=sum(cell.hits for cell in last) / trials if trials else None,
        trials=trials,
        prefill_seconds=speed.prefill_seconds if speed else None,
        decode_tokens_per_second=speed.decode_tokens_per_second if speed else None,
        measured_bytes=measured or None,
    )
