"""``ropewalk demo``: the whole job on a real model that comes in a wheel, with the embedded engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, json_option, option
from ropewalk.cli.failures import INTERRUPTED_STATUS
from ropewalk.cli.measure import show
from ropewalk.cli.params import FILE, NEW_FILE
from ropewalk.cli.runs import store_option
from ropewalk.engines import engine_for
from ropewalk.errors import EngineMissingError
from ropewalk.findings import has_error
from ropewalk.measuring.loss.records import Probe

CONTEXT_LEN = 12_288  # the loss of the unscaled model breaks near 10,700 tokens
ARMS = ("shipped", "yarn:1.5", "unscaled")  # 12,288 / 8,192 = 1.5
# A short prompt and the longest, whose needles are asked for where its losses were read: each long arm
# evaluates one text.
LENGTHS = (2_048, 12_271)
PROBES: tuple[Probe, ...] = ("loss", "recall")


@click.command(
    "demo",
    cls=Command,
    examples="""
        ropewalk demo
        ropewalk demo --html report.html
    """,
)
@option(
    "--html",
    type=NEW_FILE,
    default=Path("ropewalk-demo.html"),
    show_default=True,
    help="Where the report goes.",
)
@option(
    "--model",
    "given",
    type=FILE,
    help="The model as a file, instead of the one that is fetched once (94 MiB).",
)
@store_option
@json_option
def command(html: Path, given: Path | None, store: Path | None, as_json: bool) -> int:
    """Inspect SmolLM2-135M, plan 12,288 tokens, serve and measure three ropes, write the report.

    The model was trained for 8,192 tokens. The three arms are the model as shipped, YaRN 1.5, and the
    limit lifted without any scaling. It takes some minutes on two cores and is stored like any run.
    That so small a model forgets is no failure: the exit status is 0 where every arm was measured.
    """
    _require_engine()
    with output.waiting("fetching the model"):
        model = given or core.demo_model(say=_say)
    inspection = core.inspect(model)
    plan = core.plan(inspection, context_len=CONTEXT_LEN, arm="yarn:1.5", allow_unvalidated=True)
    if not as_json:
        from ropewalk.report.inspection import inspection_page
        from ropewalk.report.plan import plan_page

        _step(f"ropewalk inspect {model.name}")
        output.page(inspection_page(inspection, kept=core.cache_summary(inspection)))
        _step(f"ropewalk plan {model.name} --context 12k --arm yarn:1.5 --allow-unvalidated")
        output.page(plan_page(plan))
        _step(f"ropewalk measure {model.name} --context 12k {' '.join(_measured())}")
    from ropewalk.report.progress import MeasureProgress

    with MeasureProgress(output.console(stderr=True)) as progress:
        measurement = core.measure(
            model,
            context_len=CONTEXT_LEN,
            arms=ARMS,
            lengths=LENGTHS,
            probes=PROBES,
            store=store,
            on_event=progress,
        )
    show(measurement, html=html, as_json=as_json)
    click.echo(f"stored as {measurement.run_id}: ropewalk runs {measurement.run_id}", err=True)
    if measurement.status == "interrupted":
        return INTERRUPTED_STATUS
    return int(has_error(measurement.findings) or measurement.status != "finished")


def _measured() -> Iterator[str]:
    """The options that would measure the same."""
    yield from (f"--arm {arm}" for arm in ARMS)
    yield f"--lengths {','.join(map(str, LENGTHS))}"
    yield from (f"--probe {probe}" for probe in PROBES)


def _require_engine() -> None:
    """A missing engine is told before anything else is shown."""
    try:
        core.require_engine(engine_for("gguf"))
    except EngineMissingError as error:
        raise EngineMissingError(
            'the demonstration needs an engine: pip install "ropewalk[embedded]"', where=error.where
        ) from error


def _say(line: str) -> None:
    click.echo(line, err=True)


def _step(command_line: str) -> None:
    """Say what a user would type for the page that follows."""
    output.write(f"\n$ {command_line}\n")
