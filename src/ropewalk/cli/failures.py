"""Every way a command can fail, as an exit status and a line that says what to type next."""

from __future__ import annotations

import sys
import traceback

import click

from ropewalk.cli.output import document
from ropewalk.errors import RopewalkError, UsageError
from ropewalk.report.figures import printable

USAGE_STATUS = 2
BUG_STATUS = 70  # EX_SOFTWARE of sysexits.h: none of the statuses that mean something to a script
INTERRUPTED_STATUS = 130  # 128 + SIGINT, as shells count

HINTS = {
    "checkpoint_missing": "give a folder, a .safetensors or .gguf file, or a Hub id such as Qwen/Qwen3-8B",
    "engine_missing": "see what is found here: ropewalk doctor",
    "engine_failed": "see the plan's own warnings: ropewalk plan CHECKPOINT --context TOKENS",
    "hub_unreachable": "a folder or a file needs no network; HF_ENDPOINT names another address of the Hub",
    "run_not_found": "list the stored runs: ropewalk runs",
}  # fmt: skip


def report(error: BaseException, *, as_json: bool, debug: bool) -> int:
    """Say what went wrong on standard error (and as a record with ``--json``); the exit status."""
    if isinstance(error, click.Abort | KeyboardInterrupt):
        click.echo("ropewalk: interrupted", err=True)
        return INTERRUPTED_STATUS
    if isinstance(error, RopewalkError):
        _say(error.message, hint=error.where.get("hint") or HINTS.get(error.code))
        known, status = error, error.exit_status
    elif isinstance(error, click.ClickException):
        error.show()
        known, status = UsageError(error.format_message()), USAGE_STATUS
    else:
        what = f"{type(error).__name__}: {error}"
        _say(f"this is a bug in ropewalk: {what}", hint=None if debug else "details with --debug")
        known, status = RopewalkError(what, code="bug"), BUG_STATUS
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    if as_json:
        document(known.record())
    return status


def _say(message: str, *, hint: str | None) -> None:
    click.echo(f"ropewalk: {printable(message)}", err=True)
    if hint:
        click.echo(f"          {hint}", err=True)
