"""Among several models: which of them holds a length, on which engine and with which settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from ropewalk.core.arguments import Source, public, source_of
from ropewalk.core.machine import idle_threads, probe_host
from ropewalk.core.runs import default_store_path
from ropewalk.engines import REFERENCE, EngineName
from ropewalk.errors import UsageError
from ropewalk.validation import record_of, require_type

if TYPE_CHECKING:
    from ropewalk.findings import Finding
    from ropewalk.inspector.records import Checkpoint, Inspection
    from ropewalk.measuring.arm_run import StartServer
    from ropewalk.measuring.events import Event
    from ropewalk.measuring.settings import MeasureSettings
    from ropewalk.planner.choice import Choice
    from ropewalk.planner.options import ServerOptions
    from ropewalk.serving.host.probe import Host

Told = Callable[[str, int, int], None]


@public
def choose(
    sources: Source | Inspection | Sequence[Source | Inspection],
    *,
    context_len: int,
    engines: Sequence[EngineName] = (),
    store: Path | None = None,
    hosts: Callable[[EngineName], Host] | None = None,
    on_progress: Told = lambda what, done, total: None,
    open_local: Callable[[str], Checkpoint] | None = None,
    measure: int = 0,
    settings: MeasureSettings | None = None,
    on_event: Callable[[Event], None] | None = None,
    start: StartServer | None = None,
    **options: Unpack[ServerOptions],
) -> Choice:
    """Which of these checkpoints, engines, cache types and placements hold a length, best first.

    A folder or repository stands for all models in it; ``context_len`` 0 asks for the longest of each.
    Without ``engines`` they are the first that serves each format; without ``gpu`` and ``memory_bytes`` it is
    chosen for this machine (``hosts``, where that was looked at before). What runs in ``store`` saw of a
    cache type or of speed beats the rule. The first answer has its command; what cannot be read beside
    others is a finding. ``on_progress`` hears what is done, how much of it and of how much; ``open_local``
    opens what is of this machine, for who may not read everything.

    The first ``measure`` answers are served and measured with these ``settings`` (as :func:`measure` does), a
    run each in ``store``: one that is there is not made again, one that was cut off goes on. The ranking then
    follows what was seen. Raises as :func:`plan` and, measuring, as :func:`measure` does.
    """
    from ropewalk.inspector.records import Inspection
    from ropewalk.measuring.choice_runs import Measuring
    from ropewalk.measuring.choosing import choose_here
    from ropewalk.measuring.settings import MeasureSettings
    from ropewalk.planner.plan import require_sane
    from ropewalk.planner.records import PlanRequest

    given = [sources] if isinstance(sources, str | os.PathLike | Inspection) else sources
    require_type("engines", tuple(engines), tuple[EngineName, ...])
    request = record_of(PlanRequest, {**options, "context_len": context_len, "engine": REFERENCE})
    require_sane(request)
    models, unread = _models(given, on_progress, open_local)
    how = None
    if measure:
        require_type("measure", measure, int)
        settings = settings or MeasureSettings()
        threads = idle_threads() if settings.threads is None else settings.threads
        how = Measuring(measure, replace(settings, threads=threads), on_event=on_event, start=start)
    return choose_here(
        models,
        request,
        engines=engines,
        hosts=hosts or probe_host,
        store=store or default_store_path(),
        unread=unread,
        on_progress=on_progress,
        measuring=how,
    )


def _models(
    given: Sequence[Source | Inspection],
    on_progress: Told,
    open_local: Callable[[str], Checkpoint] | None,
) -> tuple[list[Inspection], list[Finding]]:
    """All models of the sources, and what could not be read."""
    from ropewalk.inspector.records import Inspection
    from ropewalk.measuring.choosing import models_of

    models: list[Inspection] = []
    unread: list[Finding] = []
    for one in given:
        if isinstance(one, Inspection):
            models.append(one)
            continue
        found, others = models_of(os.fspath(source_of(one)), on_progress, open_local)
        models += found
        unread += others
    if not models:
        raise UsageError("a choice needs at least one checkpoint", where={"field": "sources"})
    return models, unread
