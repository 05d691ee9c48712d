"""``ropewalk runs``: past measurements."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, json_option, option
from ropewalk.cli.params import FILE, NEW_FILE
from ropewalk.documents import RunList
from ropewalk.errors import RunStoreError, UsageError

if TYPE_CHECKING:
    from ropewalk.measuring.store import RunStore

store_option = option("--store", type=FILE, help="File of runs.  [default: in the user's data folder]")


def _stored(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For the shell to complete; a file of runs is not made for that."""
    path = ctx.params.get("store") or core.default_store_path()
    if not path.is_file():
        return []
    with contextlib.suppress(RunStoreError), core.open_store(path) as runs:
        return [run.run_id for run in runs.runs() if run.run_id.startswith(incomplete)]
    return []


class _Runs(Command):
    """``runs import LOGFILE`` is a command of its own: its options are not those of a stored run."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context of ``import`` where that is the first word."""
        if args[:1] != ["import"]:
            return super().make_context(info_name, args, parent, **extra)
        from ropewalk.cli.runs_import import command as imported

        return imported.make_context(f"{info_name} import", args[1:], parent, **extra)


@click.command(
    "runs",
    cls=_Runs,
    examples="""
        ropewalk runs
        ropewalk runs last --html report.html
        ropewalk runs 20261130 --csv > trials.csv
        ropewalk runs 20261130-1549 20261130-1602
        ropewalk runs import server.log --checkpoint ./Qwen3-8B
        ropewalk runs last --markdown | gh issue create --title Recall --body-file -
    """,
)
@click.argument("run", required=False, shell_complete=_stored)
@click.argument("other", required=False, shell_complete=_stored)
@option("--html", type=NEW_FILE, help="Write the report of the run as one HTML file.")
@option("--markdown", is_flag=True, help="Print the run as Markdown, for an issue or a model card.")
@option("--csv", "as_csv", is_flag=True, help="Print the trials of the run as comma-separated values.")
@option("--delete", is_flag=True, help="Forget the run, after asking.")
@option("--yes", is_flag=True, help="Do not ask.")
@store_option
@json_option
def command(
    run: str | None,
    other: str | None,
    html: Path | None,
    markdown: bool,
    as_csv: bool,
    delete: bool,
    yes: bool,
    store: Path | None,
    as_json: bool,
) -> None:
    """List the stored runs, show one, or two side by side. RUN is the beginning of an id, or `last`.

    `runs import LOGFILE` reads the log of a server that was started elsewhere, see its own --help.
    """
    asked = [as_json, markdown, as_csv, delete]
    if sum(asked) > 1:
        raise UsageError("--json, --markdown, --csv and --delete exclude each other")
    if run is None and (html or any(asked[1:])):
        raise UsageError("name a run, or `last`: which one is meant?")
    if other is not None and (html or any(asked[1:])):
        raise UsageError("two runs are shown, or written with --json; the other options take one")
    with core.open_store(store) as runs:
        if run is None:
            _list(runs, as_json)
            return
        run = runs.find(run)
        if other is not None:
            _show_pair(runs, run, runs.find(other), as_json)
        elif delete:
            _forget(runs, run, yes)
        elif as_csv:
            output.write(core.trials_csv(runs.trials(run)))
        else:
            _show(runs, run, html, markdown, as_json)


def _list(runs: RunStore, as_json: bool) -> None:
    if as_json:
        output.document(RunList(str(runs.path), runs.runs()))
        return
    from ropewalk.report.runs import runs_page

    output.page(runs_page(runs.runs()))


def _forget(runs: RunStore, run: str, yes: bool) -> None:
    if not yes:
        click.confirm(f"Forget {run}, its trials and its logs?", abort=True, err=True)
    runs.delete(run)
    click.echo(f"forgot {run}", err=True)


def _show_pair(runs: RunStore, run: str, other: str, as_json: bool) -> None:
    pair = core.pair_runs(runs, run, other)
    if as_json:
        output.document(pair)
        return
    from ropewalk.report.run_pair import runpair_page

    output.page(runpair_page(pair))


def _show(runs: RunStore, run: str, html: Path | None, markdown: bool, as_json: bool) -> None:
    measurement = runs.load(run)
    if html:
        from ropewalk.report.html import measurement_html

        output.write_file(html, measurement_html(measurement))
    if as_json:
        output.document(measurement)
    elif markdown:
        from ropewalk.report.markdown import measurement_markdown

        output.write(measurement_markdown(measurement))
    elif not html:
        from ropewalk.report.measurement import measurement_page

        output.page(measurement_page(measurement))
