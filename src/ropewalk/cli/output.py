"""Where output goes: one JSON document or one page to standard output, the rest to standard error."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ropewalk.errors import UsageError
from ropewalk.jsonio import dumps
from ropewalk.report.figures import printable
from ropewalk.units import format_seconds

_SILENT_SECONDS = 1.0

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from ropewalk.report.page import Block


def document(record: Any, *, compact: bool = False) -> None:
    """Write a record as JSON in UTF-8, whatever the terminal's encoding; ``compact`` is for long ones.

    The standard library indents in Python and writes compact JSON in C: 92,000 tensors take a third of
    the time.
    """
    # A file name that is not UTF-8 becomes a JSON escape instead of an error.
    data = (dumps(record, indent=None if compact else 2) + "\n").encode("utf-8", "backslashreplace")
    with _written():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def write(text: str) -> None:
    """Write a text to standard output; a closed pipe ends the command quietly."""
    with _written():
        sys.stdout.write(text)
        sys.stdout.flush()


def page(block: Block) -> None:
    """Write a page for people, with colour only where a terminal shows it; into a pipe whole lines.

    A row of a table is then a record, its fields apart by tabs; of a list there are only these. Where
    ``COLUMNS`` or ``FORCE_COLOR`` is set a pipe gets the page as a terminal does.
    """
    from ropewalk.report.terminal import coloured, piped

    if not sys.stdout.isatty() and not os.environ.keys() & {"COLUMNS", "FORCE_COLOR"}:
        write(piped(block))
        return
    screen = console()
    with _written(), screen.capture() as shown:  # rich, too, touches the stream
        for line in coloured(block, screen.width):
            screen.print(line, crop=False, no_wrap=True, overflow="ignore", soft_wrap=True)
    write("".join(line.rstrip() + "\n" for line in shown.get().split("\n")[:-1]))


def write_file(path: Path, text: str) -> None:
    """Write a file that the user asked for and say where it is."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", where={"file": str(path)}) from error
    click.echo(f"wrote {path}", err=True)


def console(*, stderr: bool = False) -> Console:
    """A rich console; ``NO_COLOR`` and ``TERM=dumb`` mean no escape codes at all, bold included."""
    from rich.console import Console

    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return Console(
        stderr=stderr, color_system=None if plain else "auto", highlight=False, markup=False, emoji=False
    )


class Wait:
    """What is being waited for, and since when: rendered anew each time that a terminal shows it."""

    def __init__(self, what: str) -> None:
        self.expect(what)

    def expect(self, what: str, seconds: float | None = None) -> None:
        """From now on it is this, for about so long."""
        self._what, self._seconds, self._since = what, seconds, time.monotonic()

    def __str__(self) -> str:
        what = printable(self._what)
        if self._seconds is None:
            return what
        gone = time.monotonic() - self._since
        left = self._seconds - gone
        if left < 0:
            return f"{what} · {format_seconds(gone)} so far, longer than expected"
        return f"{what} · {gone / self._seconds:.0%} · about {format_seconds(left)} left"

    def __rich__(self) -> str:
        return str(self)


@contextmanager
def waiting(what: str) -> Iterator[Wait]:
    """On a terminal, say on standard error what is being waited for, once that takes longer than a second."""
    wait = Wait(what)
    if not sys.stderr.isatty():
        yield wait
        return
    shown: list[Status] = []

    def show() -> None:
        shown.append(console(stderr=True).status(wait))
        shown[0].start()

    timer = threading.Timer(_SILENT_SECONDS, show)
    timer.daemon = True
    timer.start()
    try:
        yield wait
    finally:
        timer.cancel()
        timer.join()
        for status in shown:
            status.stop()


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on standard error where that is a terminal; told what is done, how much of it, of how much."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bars:
        bar = bars.add_task("", total=None)
        yield lambda what, done, total: bars.update(bar, description=what, completed=done, total=total)


@contextmanager
def _written() -> Iterator[None]:
    """A reader that went away (``| head``) does not change the command's verdict; a full disk is an error.

    What is still to come goes nowhere, so that neither an error's record nor the flush at exit fails again.
    """
    try:
        yield
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise UsageError(
                f"standard output cannot be written: {error.strerror}", where={"file": "standard output"}
            ) from error
