"""``ropewalk tui``: the application in the terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from ropewalk.cli.command import Command, option
from ropewalk.cli.params import FILE
from ropewalk.errors import RopewalkError, UsageError


@click.command(
    "tui",
    cls=Command,
    examples="""
        ropewalk tui
        ropewalk tui ./Qwen3-8B
        ropewalk tui Qwen/Qwen3-8B
    """,
)
@click.argument("checkpoint", required=False)
@option("--light", is_flag=True, help="Start in light colours.")
@option("--store", type=FILE, help="File of runs.  [default: in the user's data folder]")
def command(checkpoint: str | None, light: bool, store: Path | None) -> None:
    """Open, inspect, plan, serve and measure on one screen after the other.

    Without CHECKPOINT it starts where checkpoints are found. The keys that work are on the last line; `?`
    explains a screen, ctrl+p finds every command by name. Quitting stops what it started, after asking.
    """
    in_browser = "TEXTUAL_DRIVER" in os.environ
    if not in_browser and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("`ropewalk tui` needs a terminal; `ropewalk web` serves the same in a browser")
    from ropewalk.tui.app import RopewalkApp
    from ropewalk.tui.work import Backend

    app = RopewalkApp(checkpoint, backend=Backend(runs=store), light=light)
    app.run()
    if app.crash is not None:
        raise _bug(app.crash)


def _bug(error: Exception) -> RopewalkError:
    """One line that says where the rest is."""
    from platformdirs import user_log_path

    from ropewalk.tui.crash import write_crash

    said = f"{type(error).__name__}: {error}".splitlines()[0]
    try:
        where = f"the log is {write_crash(error, user_log_path('ropewalk'))}"
    except OSError as problem:
        where = f"its log cannot be written: {problem.strerror or problem}"
    return RopewalkError(f"the application ended by a bug in ropewalk ({said}); {where}", code="bug")
