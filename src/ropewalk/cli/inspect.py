"""``ropewalk inspect``: what a checkpoint is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, checkpoint_argument, json_option, option
from ropewalk.errors import RopewalkError
from ropewalk.findings import has_error
from ropewalk.inspector.records import Inspection

if TYPE_CHECKING:
    from ropewalk.report.inspection import Kept


@click.command(
    "inspect",
    cls=Command,
    examples="""
        ropewalk inspect ./Qwen3-8B
        ropewalk inspect Qwen/Qwen3-8B --json | jq .facts.native_context
        ropewalk inspect model-00001-of-00003.gguf --facts
    """,
)
@checkpoint_argument
@option("--facts", is_flag=True, help="List every fact with its source.")
@json_option
def command(checkpoint: str, facts: bool, as_json: bool) -> int:
    """Say what a checkpoint is, from its headers; no weight is loaded.

    Exit status 1 where a finding is an error: a config that the tensors contradict, a truncated file.
    """
    inspection = core.inspect(checkpoint)
    if as_json:
        output.document(inspection)
    elif facts:
        from ropewalk.report.inspection import facts_page

        output.page(facts_page(inspection))
    else:
        from ropewalk.report.inspection import inspection_page

        output.page(inspection_page(inspection, kept=_kept(inspection)))
    return int(has_error(inspection.findings))


def _kept(inspection: Inspection) -> Kept | None:
    """What the planner says of the cache at the lengths that the checkpoint names; None if it cannot say."""
    from ropewalk.planner.plan import make_plan
    from ropewalk.planner.records import PlanRequest
    from ropewalk.report.inspection import Kept

    named = (inspection.value("native_context"), inspection.value("supported_context"))
    lengths = list(dict.fromkeys(length for length in named if length))
    # transformers reserves nothing beside what the model needs, so its plan is the model's own.
    requests = [
        PlanRequest(length, "transformers", cache_type_k="bfloat16", cache_type_v="bfloat16")
        for length in lengths
    ]
    try:
        caches = [make_plan(inspection, request).memory.kv for request in requests]
    except RopewalkError:
        return None
    if not caches:
        return None
    at = tuple((length, kv.logical_bytes) for length, kv in zip(lengths, caches, strict=True))
    return Kept("bf16", caches[0].bytes_per_token, caches[0].state_bytes_per_sequence, at)
