"""``ropewalk measure``: what is recalled at which length, under which rope, beside the plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, checkpoint_argument, json_option, option
from ropewalk.cli.failures import INTERRUPTED_STATUS
from ropewalk.cli.params import (
    COUNT,
    ENGINE_HELP,
    FILE,
    NEW_FILE,
    SERVED,
    TOKENS,
    ListType,
    context_option,
    server_options,
    server_options_of,
)
from ropewalk.cli.runs import store_option
from ropewalk.errors import UsageError
from ropewalk.measuring.loss.layout import MOST_PER_STOP
from ropewalk.measuring.loss.records import PROBES
from ropewalk.measuring.records import Measurement

if TYPE_CHECKING:
    from ropewalk.engines import EngineName
    from ropewalk.measuring.cluster.settings import CampaignSettings
    from ropewalk.measuring.settings import MeasureOptions

_GRID, _RUN, _CLUSTER = "What to ask", "The run", "On a cluster"


@click.command(
    "measure",
    cls=Command,
    examples="""
        ropewalk measure model.gguf --context 12k --arm shipped --arm yarn:1.5 --arm unscaled
        ropewalk measure model.gguf --context 32k --minutes 20 --html report.html
        ropewalk measure ./Qwen3-8B --context 64k --task niah_multikey --trials 6 --json > run.json
        ropewalk measure model.gguf --context 12k --resume 20261130
        ropewalk measure /models/Qwen3-8B --context 64k --on ray://head:10001 --per-task-gpus 1
    """,
)
@checkpoint_argument
@context_option
@option(
    "--arm",
    "arms",
    multiple=True,
    metavar="ARM",
    group=_GRID,
    help="auto, shipped, yarn:F or unscaled; +q8_0 behind it is a cache type. May be repeated.  "
    "[default: shipped and auto]",
)
@option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    group=_GRID,
    help="Choose lengths and trials for about this time.",
)
@option(
    "--probe",
    "probes",
    type=click.Choice([*PROBES, "all"]),
    multiple=True,
    group=_GRID,
    help="loss by position, copy (loss of repeated passages), recall, or all; may be repeated.  "
    "[default: recall]",
)
@option(
    "--text",
    "texts",
    type=FILE,
    multiple=True,
    group=_GRID,
    help="Read losses of this file, not of the haystack; may be repeated.",
)
@option(
    "--tokens-per-stop",
    type=click.IntRange(1, MOST_PER_STOP),
    metavar="N",
    group=_GRID,
    help="Tokens read at each stop of a text.  [default: 8]",
)
@option(
    "--task",
    "tasks",
    multiple=True,
    metavar="TASK",
    group=_GRID,
    help="What to ask; may be repeated.  [default: niah_single]",
)
@option(
    "--lengths",
    type=ListType(TOKENS),
    group=_GRID,
    help="Prompt lengths.  [default: a short one and the longest of every arm]",
)
@option(
    "--depths",
    type=ListType(click.FLOAT),
    metavar="SHARE,...",
    group=_GRID,
    help="Where the needles are, 0 to 1.  [default: 0.1,0.3,0.5,0.7,0.9]",
)
@option(
    "--trials", type=COUNT, metavar="N", group=_GRID, help="Haystacks per length and depth.  [default: 1]"
)
@option(
    "--early-stop/--no-early-stop",
    default=None,
    group=_GRID,
    help="Stop asking at a length as soon as its result is decided.",
)
@option("--seed", type=int, metavar="N", group=_GRID, help="The same seed asks the same questions.")
@option("--haystack", metavar="KIND", group=_GRID, help="prose, noise, or a text file.")
@option(
    "--form", type=click.Choice(["prefill", "chat", "completion"]), group=_GRID, help="How a question is put."
)
@option("--answer-tokens", type=COUNT, metavar="N", group=_GRID, help="Room for an answer.")
@option("--threads", type=COUNT, metavar="N", group=_RUN, help="Threads of the engine.")
@option("--engine", type=click.Choice(SERVED), group=_RUN, help=ENGINE_HELP)
@option("--engine-path", type=FILE, group=_RUN, help="The engine to start instead of the one found.")
@option("--resume", metavar="RUN", group=_RUN, help="Go on with an interrupted run, or the `last`.")
@option("--html", type=NEW_FILE, group=_RUN, help="Write the report as one HTML file, too.")
@store_option
@option(
    "--on",
    metavar="PLACE",
    group=_CLUSTER,
    help="One task per arm on local, ray://HOST:PORT, ray://auto, slurm or slurm:PARTITION.",
)
@option(
    "--per-task-gpus",
    type=click.IntRange(min=0),
    metavar="N",
    group=_CLUSTER,
    help="GPUs of each task.  [default: none]",
)
@option(
    "--whole-nodes",
    is_flag=True,
    default=None,
    group=_CLUSTER,
    help="Give each task a node of its own; without, no speed is measured.",
)
@option(
    "--retries",
    type=click.IntRange(min=0),
    metavar="N",
    group=_CLUSTER,
    help="How often a task is handed out again whose worker or node was lost.  [default: 2]",
)
@option(
    "--task-minutes",
    type=COUNT,
    metavar="N",
    group=_CLUSTER,
    help="Slurm: time limit of a job.  [default: 240]",
)
@server_options
@json_option
def command(
    checkpoint: str,
    context_len: int,
    arms: tuple[str, ...],
    tasks: tuple[str, ...],
    probes: tuple[str, ...],
    texts: tuple[Path, ...],
    engine: EngineName | None,
    engine_path: Path | None,
    resume: str | None,
    html: Path | None,
    store: Path | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Serve each arm in turn, ask the same questions of each, and compare: recall, memory, speed.

    Every trial is stored as it ends; an interrupted run goes on with --resume. Exit status 1 where the
    best arm recalls less than 85 % at the longest length, or a finding is an error.
    """
    from ropewalk.report.progress import MeasureProgress

    given: dict[str, Any] = {"arms": arms, "tasks": tasks, "resume": resume, "engine": engine}
    given["probes"] = PROBES if "all" in probes else tuple(dict.fromkeys(probes))
    given["texts"] = tuple(map(str, texts))
    given |= {name: options.pop(name) for name in _SETTINGS}
    given["on"] = _campaign({name: options.pop(name) for name in _CAMPAIGN})
    given["engine_path"] = None if engine_path is None else str(engine_path)
    given = {name: value for name, value in given.items() if value not in (None, ())}
    chosen = cast("MeasureOptions", {"context_len": context_len, "plan": server_options_of(options), **given})
    with MeasureProgress(output.console(stderr=True)) as progress:
        measurement = core.measure(checkpoint, store=store, on_event=progress, **chosen)
    show(measurement, html=html, as_json=as_json)
    if measurement.status == "interrupted":
        return INTERRUPTED_STATUS
    return int(not core.recalls_enough(measurement))


_SETTINGS = (
    *("minutes", "lengths", "depths", "trials", "early_stop", "seed", "haystack", "form"),
    *("answer_tokens", "threads", "tokens_per_stop"),
)  # fields of MeasureSettings, by their own names


_CAMPAIGN = ("on", "per_task_gpus", "whole_nodes", "retries", "task_minutes")  # fields of CampaignSettings


def _campaign(options: dict[str, Any]) -> CampaignSettings | None:
    from ropewalk.measuring.cluster.settings import CampaignSettings

    chosen = {name: value for name, value in options.items() if value is not None}
    if not chosen:
        return None
    if "on" not in chosen:
        flag = f"--{next(iter(chosen)).replace('_', '-')}"
        raise UsageError(f"{flag} is for a campaign: say where with --on", where={"flag": flag})
    return CampaignSettings(**chosen)


def show(measurement: Measurement, *, html: Path | None, as_json: bool) -> None:
    """The page or the record, the HTML file where one was asked for, and how to go on if it was cut short."""
    if as_json:
        output.document(measurement)
    else:
        from ropewalk.report.measurement import measurement_page

        output.page(measurement_page(measurement))
    if html:
        from ropewalk.report.html import measurement_html

        output.write_file(html, measurement_html(measurement))
    if measurement.status == "interrupted":
        click.echo(f"ropewalk: interrupted; the same with --resume {measurement.run_id} goes on", err=True)
