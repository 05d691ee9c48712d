"""Servers that answer over HTTP as llama-server does, but for one lie each: measuring catches every lie."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.measuring.fake_llm import FakeServer
from tests.measuring.test_measure import SMALL, Bench, FakeRunning, gguf_of, outcomes

from ropewalk.measuring.records import Outcome
from ropewalk.measuring.store import RunStore
from ropewalk.planner.records import Launch
from ropewalk.serving.client import Completion, PromptTooLongError
from ropewalk.serving.engines.llama_cpp.client import LlamaClient
from ropewalk.serving.server_report import ServerReport


def answer(llm: FakeServer, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """The routes that a measurement asks, with the fields of llama.cpp b11434, tools/server/README.md."""
    if path == "/tokenize":
        asked = {name: body[name] for name in ("add_special", "parse_special")}
        return 200, {"tokens": llm.tokenize(body["content"], **asked)}
    if path == "/apply-template":
        options = body.get("chat_template_kwargs")
        return 200, {"prompt": llm.apply_template(body["messages"], template_options=options)}
    try:
        done = llm.complete(
            body["prompt"],
            max_tokens=body["n_predict"],
            cache_prompt=body["cache_prompt"],
            stop=body["stop"],
            n_probs=body["n_probs"],
        )
    except PromptTooLongError as error:
        counts = {"n_prompt_tokens": error.prompt_tokens, "n_ctx": error.context_len}
        return 400, {"error": {"type": "exceed_context_size_error", "message": "too long", **counts}}
    return 200, _completion(done)


def _completion(done: Completion) -> dict[str, Any]:
    cached = done.cached_tokens or 0
    steps = [
        [{"id": c.token, "token": c.text, "logprob": c.logprob} for c in row] for row in done.top_logprobs
    ]
    return {
        "content": done.text,
        "tokens": list(done.tokens),
        "truncated": done.truncated,
        "stop_type": "limit" if done.finish == "length" else "eos",
        "completion_probabilities": [{"top_logprobs": row} for row in steps],
        "timings": {
            "cache_n": cached,
            "prompt_n": (done.prompt_tokens or 0) - cached,
            "prompt_ms": 1000 * (done.prefill_seconds or 0),
            "predicted_per_second": done.decode_tokens_per_second,
        },
    }


def listen(llm: FakeServer) -> ThreadingHTTPServer:
    """Answers on a free port, in a thread of its own, until it is shut down."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, said = answer(llm, self.path, body)
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is said of what was asked."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,)).start()
    return server


@dataclass
class HttpBench(Bench):
    """As :class:`Bench`, with the real client between; scaling changes the probabilities as it should,
    unless the n-th server ``ignores`` it."""

    listening: list[ThreadingHTTPServer] = field(default_factory=list)
    ignores: bool = False

    def start(self, spec: Launch, log_path: Path) -> FakeRunning:
        fault = self.faults[len(self.servers)] if len(self.servers) < len(self.faults) else {}
        scaling = spec.argv[spec.argv.index("--rope-scale") + 1] if "--rope-scale" in spec.argv else "1"
        logprob = -0.25 if self.ignores else -0.25 * float(scaling)
        llm = FakeServer(
            **{"context": spec.served_context_len, "logprob": logprob, **self.vocabulary, **fault}
        )
        self.listening.append(listen(llm))
        client = LlamaClient(f"http://127.0.0.1:{self.listening[-1].server_port}")
        self.servers.append(HttpRunning(client, ServerReport("fake", llm.context, 1)))
        return self.servers[-1]


@dataclass
class HttpRunning(FakeRunning):
    """Ends its connection with the block."""

    client: Any

    def __exit__(self, *error: object) -> None:
        self.client.close()

    def require_alive(self) -> None:
        """It is."""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[HttpBench]:
    model = tmp_path / "model.gguf"
    model.write_bytes(gguf_of({"general.architecture": "llama"}))
    with RunStore(tmp_path / "runs.sqlite3") as store:
        made = HttpBench(store, model)
        yield made
        for server in made.listening:
            server.shutdown()
            server.server_close()


def test_an_honest_server_is_believed(bench: HttpBench) -> None:
    run = bench.measure(arms=("shipped", "yarn:1.5"))
    for arm in ("shipped", "yarn:1.5"):
        assert outcomes(run, arm, 400) + outcomes(run, arm, 700) == ["hit"] * 10
    assert [finding for finding in run.findings if finding.severity == "error"] == []
    assert run.comparison is not None
    assert [pair.p_value for pair in run.comparison.pairs] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("fault", "outcome", "detail"),
    [
        # ollama#18399: half the context was evaluated, the start of the prompt is gone, the status is 200
        ({"truncates": True, "context": 600}, "invalid", "the server evaluated 300 tokens of 700"),
        ({"lists_all": True}, "wrong_needle", r"the answer (gives|goes on to) \d{7}"),
        ({"shifts": True, "context": 706}, "invalid", "the server shifted its context during the answer"),
    ],
    ids=["truncates", "all candidates", "shifts"],
)
def test_a_lie_is_no_recall_and_no_miss_of_the_model(
    bench: HttpBench, fault: dict[str, Any], outcome: Outcome, detail: str
) -> None:
    bench.faults = [fault]
    run = bench.measure(replace(SMALL, lengths=(700,)), arms=("shipped",))
    assert outcomes(run, "shipped", 700) == [outcome] * 5
    for trial in bench.store.trials(run.run_id):
        assert re.match(detail, trial.detail or "")
    (arm,) = run.arms
    assert sum(cell.hits for cell in arm.cells) == 0
    assert all((cell.low is None) == (outcome == "invalid") for cell in arm.cells)
    assert arm.effective_context_absolute is arm.effective_context_relative is None


def test_a_server_that_ignores_the_scaling_is_caught(bench: HttpBench) -> None:
    """Both arms answer every question rightly: only the probabilities tell."""
    bench.ignores = True
    run = bench.measure(arms=("shipped", "yarn:1.5"))
    assert outcomes(run, "yarn:1.5", 700) == ["hit"] * 5
    (told,) = [finding for finding in run.findings if finding.severity == "error"]
    assert (told.code, told.where["arms"], told.where["prompts"]) == (
        "rope_scaling_inactive",
        ["shipped", "yarn:1.5"],
        10,
    )
