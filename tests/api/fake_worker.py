"""A stand-in for the service's worker; what it does is named by the last part of the source.

It writes a line to the pipe ``alive`` beside the store and keeps it open for as long as it lives: whoever
reads that knows that it began, and notices its end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

RUN_ID = "20261130-1549-7f3a"  # of tests/cli/records.py, stored before


def tell(name: str, data: Any) -> None:
    print(f"{name}\t{json.dumps(data)}", flush=True)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C must not reach it
    order = json.loads(sys.stdin.readline())
    alive = os.open("../alive", os.O_WRONLY)  # it runs in the folder of jobs
    os.write(alive, f"{os.getpid()}\n".encode())
    kind = Path(order["source"]).name
    if kind == "problem":
        where = {"file": "x"}
        tell("problem", {"status": 502, "code": "engine_failed", "message": "no memory", "where": where})
    elif kind == "silent":
        sys.stdin.read()
    elif kind == "deaf":
        tell("run_started", {"run_id": RUN_ID})
        while True:
            signal.pause()
    elif kind == "killed":
        tell("run_started", {"run_id": RUN_ID})
        os.kill(os.getpid(), signal.SIGKILL)
    elif order["kind"] == "serve":
        tell("step", {"message": "starting"})
        tell("ready", {"name": "m", "pid": 41, "port": order["port"]})
    else:
        request = order["request"]
        told = {"resume": request["resume"], "settings": request["settings"]}
        tell("run_started", {"run_id": RUN_ID, **told})
        tell("trial_ended", {"trial": 1})
        if kind == "long":
            sys.stdin.read()
        tell("run_ended", {"measurement": {"run_id": RUN_ID}})


if __name__ == "__main__":
    main()
