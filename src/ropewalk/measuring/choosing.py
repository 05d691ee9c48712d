"""A choice for what is here: models and engines found, what was measured before, the command of the first."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from ropewalk.engines import EngineName, readers_of
from ropewalk.errors import CheckpointError, CheckpointMissingError, RopewalkError
from ropewalk.findings import Finding, by_severity
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.inspector.models import Opened, open_models
from ropewalk.inspector.records import Checkpoint, Inspection
from ropewalk.measuring.calibrate import find_calibration
from ropewalk.measuring.choice_runs import Measuring, measure_first
from ropewalk.measuring.known import known_of
from ropewalk.measuring.store import RunStore
from ropewalk.planner.choice import Choice, Option
from ropewalk.planner.choose import choose
from ropewalk.planner.options import option_words
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.serving.host.probe import plan_for_host
from ropewalk.serving.host.targets import Hosts, choice_targets

Progress = Callable[[str, int, int], None]
_ELSEWHERE = ("memory_bytes", "gpu", "gpus_per_node", "device", "engine_version")


def models_of(
    source: str, on_progress: Progress, open_local: Callable[[str], Checkpoint] | None = None
) -> tuple[list[Inspection], list[Finding]]:
    """The models of a source, and what is there and cannot be read.

    ``open_local`` is that of :func:`ropewalk.inspector.models.open_models`. Raises :class:`CheckpointError`
    where there is no model at all.
    """
    opened = open_models(
        source,
        on_progress=lambda done, total: on_progress("reading headers", done, total),
        open_local=open_local,
    )
    found: list[Inspection] = []
    unread: list[Finding] = []
    for one in opened:
        inspection = _inspected(one, unread)
        if inspection is not None:
            found.append(inspection)
    if not found:
        raise CheckpointMissingError(
            f"{source} holds no model that could be served: {unread[0].message}",
            code="no_model", where={"file": source, "found": [one.source for one in opened][:20]},
        )  # fmt: skip
    return found, unread


def _inspected(one: Opened, unread: list[Finding]) -> Inspection | None:
    try:
        if one.checkpoint is None:
            raise one.error or CheckpointError(f"{one.source} cannot be read", where={"file": one.source})
        found = inspect_checkpoint(one.checkpoint)
    except RopewalkError as error:
        unread.append(
            Finding(error.code, "warning", error.message, {**error.where, "checkpoint": one.source})
        )
        return None
    kind = found.checkpoint.kind
    if kind not in ("model", "unknown"):
        unread.append(
            Finding(
                "not_a_model",
                "info",
                f"{one.source} is {_A[kind]}, no model of its own",
                {"file": one.source},
            )
        )
        return None
    return found


_A = {"adapter": "an adapter", "draft": "a draft model", "projector": "a projector"}


def choose_here(
    models: Sequence[Inspection],
    request: PlanRequest,
    *,
    engines: Sequence[EngineName],
    hosts: Hosts,
    store: Path,
    unread: Sequence[Finding] = (),
    on_progress: Progress = lambda what, done, total: None,
    measuring: Measuring | None = None,
) -> Choice:
    """The choice among ``models``, the first of them measured where ``measuring`` says how.

    Raises as :func:`ropewalk.planner.choose.choose` and :func:`measure_first` do.
    """
    hosts = cache(hosts)  # to ask an engine takes a moment
    wanted = tuple(engines) or served_engines_of(models)
    chosen_for = choice_targets(request, wanted, hosts)
    chosen = choose(
        models,
        chosen_for.targets,
        device=chosen_for.device,
        known=known_of(store, hosts),
        on_progress=lambda done, total: on_progress("planning", done, total),
    )
    chosen = replace(chosen, findings=by_severity((*chosen.findings, *unread)))
    if measuring is not None:
        with RunStore(store) as runs:
            chosen = measure_first(chosen, models, measuring, runs)
    return with_command(chosen, models, hosts, store)


def served_engines_of(models: Sequence[Inspection]) -> tuple[EngineName, ...]:
    """The first that serves each format."""
    formats = sorted({model.checkpoint.format for model in models})
    return tuple(dict.fromkeys(readers_of(kind)[0].name for kind in formats))


def with_command(choice: Choice, models: Sequence[Inspection], hosts: Hosts, store: Path) -> Choice:
    """The choice with the commands of its first option, as a plan for it has them."""
    if not choice.positive:
        return replace(choice, command=None, here=None)
    first = choice.options[0]
    model = next(one for one in models if one.checkpoint.source == first.checkpoint)
    planned = option_plan(first, model, hosts, store)
    command = planned.launch.command if planned.launch else None
    return replace(choice, command=command, here=serve_command(first))


def option_plan(option: Option, model: Inspection, hosts: Hosts, store: Path) -> Plan:
    """The plan behind an option."""
    here = hosts(option.engine)
    calibration = find_calibration(model, option.request, here, store=store)
    return plan_for_host(model, option.request, here, calibration=calibration)


def serve_command(option: Option) -> str:
    """What starts the option on this machine, with the engine found here."""
    words = option_words(option.request, without=_ELSEWHERE)
    return shlex.join(("ropewalk", "serve", option.checkpoint, *words))
