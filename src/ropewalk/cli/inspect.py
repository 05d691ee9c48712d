"""``ropewalk inspect``: what a checkpoint is."""

from __future__ import annotations

from pathlib import Path

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, checkpoint_argument, json_option, option
from ropewalk.errors import CheckpointError
from ropewalk.findings import has_error
from ropewalk.inspector.survey import CheckpointList


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

    Of a folder or repository with several checkpoints each is listed: type, bits per weight, bytes.

    Exit status 1 where a finding is an error: a config that the tensors contradict, a truncated file.
    """
    with output.waiting(f"reading the headers of {checkpoint}"):
        try:
            inspection = core.inspect(checkpoint)
        except CheckpointError as error:
            listed = _several(checkpoint, error)
            if listed is None:
                raise
            return _list(listed, as_json=as_json)
    if as_json:
        output.document(inspection)
    elif facts:
        from ropewalk.report.inspection import facts_page

        output.page(facts_page(inspection))
    else:
        from ropewalk.report.inspection import inspection_page

        output.page(inspection_page(inspection, kept=core.cache_summary(inspection)))
    return int(has_error(inspection.findings))


def _several(checkpoint: str, error: CheckpointError) -> CheckpointList | None:
    """What a folder or repository holds that is no single checkpoint; None where the error stands."""
    below = error.code == "empty_checkpoint" and Path(checkpoint).is_dir()
    if error.code != "ambiguous_checkpoint" and not below:
        return None
    listed = core.checkpoints(checkpoint)
    return listed if listed.checkpoints else None


def _list(listed: CheckpointList, *, as_json: bool) -> int:
    if as_json:
        output.document(listed)
    else:
        from ropewalk.report.inspection import list_page

        output.page(list_page(listed))
    return 0
