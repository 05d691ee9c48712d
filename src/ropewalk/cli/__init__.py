"""The command line: one file per command, each loaded only when it is called."""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process and exit with its status."""
    from ropewalk.cli.app import run

    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started this
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  open until the end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a narrow encoding must not end a page half-way
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # told to end: as by Ctrl-C, in good order
    sys.exit(run(sys.argv[1:]))
