"""The embedded engine: llama.cpp's own HTTP server out of a wheel, in a process of its own.

Run as ``python -P -m ropewalk.serving.engines.llama_cpp.embedded ARGUMENT...`` with the arguments of
``llama-server``; it stays until SIGTERM or SIGINT. Never imported by ropewalk's own process: the library
starts threads, and holds the interpreter while it loads a model.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from ropewalk.serving.engines.llama_cpp.embedded_flags import FlagError, Setting, parse
from ropewalk.serving.engines.llama_cpp.engine_log import wait_until_written


def main(arguments: Sequence[str]) -> int:
    """Serve until told to stop. Returns 0, or 1 with the engine's reason on standard error."""
    try:
        settings = parse(arguments)
    except FlagError as error:
        print(error, file=sys.stderr)  # noqa: T201 - what llama-server itself would print
        return 1
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)  # a model half loaded holds nothing worth saving
    server = start(parameters_of(settings))
    if server is None:
        return 1
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: stop.set())
    stop.wait()
    del server  # joins the engine's threads and prints its memory table
    return 0


def start(parameters: Any) -> Any:
    """The running server, or None after the engine has logged why there is none."""
    import xllamacpp

    try:
        return xllamacpp.Server(parameters)
    except RuntimeError:  # "Failed to init server": the reason is in its log
        wait_until_written()
        return None


def parameters_of(settings: Sequence[Setting]) -> Any:
    """The engine's own parameters."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    for attribute, value in settings:
        owner, _, name = attribute.rpartition(".")
        setattr(getattr(parameters, owner) if owner else parameters, name, value)
    return parameters


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
