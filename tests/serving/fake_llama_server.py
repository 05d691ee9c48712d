"""A stand-in for llama-server that misbehaves on request; run as a program by the tests of the launcher.

``FAKE`` in the environment holds JSON: ``unready`` (how many health questions are answered 503),
``context`` (reported per slot), ``dies`` (``loading`` or ``request``), ``deaf`` (ignores SIGTERM),
``hangs`` (after the first completion),
``worker`` (begins a process in a session of its own and prints its id), ``name`` (of the model).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FAKE = json.loads(os.environ.get("FAKE", "{}"))
SLOT = {"default_generation_settings": {"n_ctx": FAKE.get("context", 512)}, "total_slots": 1}
COMPLETION = {
    "content": "!",
    "tokens": [5],
    "truncated": False,
    "stop_type": "limit",
    "timings": {"cache_n": 0, "prompt_n": 1, "prompt_ms": 1.0, "predicted_per_second": 10.0},
}


class Handler(BaseHTTPRequestHandler):
    """Answers the five questions that a start asks, and logs them to standard error."""

    unready = FAKE.get("unready", 0)
    completions = 0

    def do_GET(self) -> None:
        if self.path == "/health" and Handler.unready > 0:
            Handler.unready -= 1
            self.answer({"error": {"message": "Loading model"}}, status=503)
        elif self.path == "/v1/models":
            self.answer({"data": [{"id": FAKE.get("name", argument("-a"))}]})
        else:
            self.answer(SLOT if self.path == "/props" else {"status": "ok"})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/completion" and FAKE.get("dies") == "request":
            say("E ggml_compute: the first request was too much")
            os.kill(os.getpid(), signal.SIGKILL)
        Handler.completions += self.path == "/completion"
        if Handler.completions > 1 and FAKE.get("hangs"):
            say("I a prompt that does not end")
            threading.Event().wait()
        self.answer({"tokens": [5]} if self.path == "/tokenize" else COMPLETION)

    def answer(self, body: object, *, status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def argument(flag: str) -> str:
    return sys.argv[sys.argv.index(flag) + 1]


def main() -> None:
    for name in os.environ:
        if name.startswith("LLAMA_ARG_"):
            say(f"I read {name}")
    if FAKE.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if FAKE.get("worker"):
        worker = subprocess.Popen(
            [sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True
        )
        say(f"I worker {worker.pid}")
    if FAKE.get("dies") == "loading":
        say("0.00.100.000 E llama_model_load: error loading model: the tensors are of cheese")
        say("0.00.100.200 E srv init: exiting due to model loading error")
        sys.exit(1)
    ThreadingHTTPServer(("127.0.0.1", int(argument("--port"))), Handler).serve_forever()


if __name__ == "__main__":
    main()
