"""Does one job of the service in a process of its own, and tells what happens, an event on each line.

Run as ``python -P -m ropewalk.api.worker``. The order is the first line on standard input, which then stays
open: its end means stop, or that the service is gone, and has the effect of Ctrl-C. Each line on standard
output is the name of an event, a tab, and its record as JSON. The last one of a measurement is
``run_ended``, of a start ``ready``, of a failure ``problem``.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from io import FileIO
from pathlib import Path
from typing import Any, TextIO

from ropewalk import core, jsonio
from ropewalk.api.orders import MeasureOrder, Order, ServeOrder
from ropewalk.errors import RopewalkError
from ropewalk.measuring.events import Event
from ropewalk.serving.service import ServeSettings

_ORDERS: dict[str, type[Order]] = {"measure": MeasureOrder, "serve": ServeOrder}


def main() -> int:
    """Do what standard input says; the exit status is 0, 1 after a problem, 130 after a stop."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a service in the background ignores it
    owner = FileIO(0)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(2, 1)  # whatever else is printed belongs to the log of the service
    data = json.loads(owner.readline())
    order = jsonio.from_data(_ORDERS[data["kind"]], data)
    threading.Thread(target=_stop_with, args=(owner,), daemon=True).start()
    try:
        _measure(order, out) if isinstance(order, MeasureOrder) else _serve(order, out)
    except RopewalkError as error:
        _tell(out, "problem", {"status": error.http_status, **error.record()})
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _stop_with(owner: FileIO) -> None:
    while owner.read(64):
        pass
    main_thread = threading.main_thread().ident
    assert main_thread is not None  # noqa: S101
    signal.pthread_kill(main_thread, signal.SIGINT)


def _measure(order: MeasureOrder, out: TextIO) -> None:
    core.measure(
        order.source,
        order.request,
        store=Path(order.store),
        on_event=lambda event: _tell(out, event_name(event), event),
    )


def _serve(order: ServeOrder, out: TextIO) -> None:
    settings = ServeSettings(port=order.port, threads=order.threads, verify=order.verify)
    service = core.serve(
        order.source,
        settings=settings,
        say=lambda line: _tell(out, "step", {"message": line}),
        **order.request,
    )
    with service:
        left = service.detach()
        try:
            _tell(out, "ready", left)
        except KeyboardInterrupt:  # nobody is left who would know of it
            core.stop_server(left)
            raise


def event_name(event: Event) -> str:
    """``TrialEnded`` is told as ``trial_ended``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(event).__name__).lower()


def _tell(out: TextIO, name: str, record: Any) -> None:
    try:
        out.write(f"{name}\t{jsonio.dumps(record, indent=None)}\n")
        out.flush()
    except BrokenPipeError:
        raise KeyboardInterrupt from None  # the service is gone


if __name__ == "__main__":
    sys.exit(main())
