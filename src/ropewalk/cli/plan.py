"""``ropewalk plan``: what it takes to serve a checkpoint at a context length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, checkpoint_argument, json_option, option
from ropewalk.cli.params import FILE, context_option, plan_options, request_fields


@click.command(
    "plan",
    cls=Command,
    examples="""
        ropewalk plan ./Qwen3-8B --context 128k --engine vllm --memory 48GiB
        ropewalk plan model.gguf --context 32k --sequences 4 --cache-type q8_0
        ropewalk plan ./Qwen3-8B --context 64k --json | jq -r .launch.command > serve.sh
    """,
)
@checkpoint_argument
@context_option
@plan_options
@option("--engine-path", type=FILE, help="The engine to plan for instead of the one found.")
@option("--confirm", is_flag=True, help="Have the engine itself work out its memory; no weight is read.")
@option("--sources", is_flag=True, help="Show where the rule of each memory term was read.")
@json_option
def command(
    checkpoint: str,
    context_len: int,
    engine_path: Path | None,
    confirm: bool,
    sources: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Decide the rope scaling, count the memory as the engine allocates it, and write the command.

    Exit status 1 where it does not fit the budget or is refused.
    """
    plan = core.plan(
        checkpoint,
        context_len=context_len,
        engine_path=None if engine_path is None else str(engine_path),
        confirm=confirm,
        **request_fields(options),
    )
    if as_json:
        output.document(plan)
    else:
        from ropewalk.report.plan import plan_page

        output.page(plan_page(plan, sources=sources))
    return 0 if plan.positive else 1
