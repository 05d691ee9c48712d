"""The client of llama-cpp-python's server, against answers of 0.3.36 with SmolLM2."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

import pytest

from ropewalk.errors import EngineError
from ropewalk.serving.client import PromptTooLongError
from ropewalk.serving.engines.llama_cpp_python.client import LlamaCppPythonClient
from ropewalk.serving.process.ports import free_port
from ropewalk.units import MIB

TOO_LONG = (
    "This model's maximum context length is 2048 tokens, however you requested 3005 tokens "
    "(3001 in your prompt; 4 for the completion). Please reduce your prompt; or completion length."
)
LOG = """\
load_tensors:   CPU_Mapped model buffer size =    92.10 MiB
llama_context: constructing llama_context
llama_context: n_ctx                 = 768
llama_context: n_ctx_seq             = 768
llama_context: freq_scale            = 0.5
llama_kv_cache:        CPU KV buffer size =    16.88 MiB
llama_kv_cache: size =   16.88 MiB (   768 cells,  30 layers,  1/1 seqs), K (f16):    8.44 MiB
sched_reserve:        CPU compute buffer size =    98.25 MiB
""".splitlines()
START = 1  # a token before every prompt, as of a model with add_bos_token


class Handler(BaseHTTPRequestHandler):
    """A server whose tokens are characters, but for "ab", which is one token."""

    asked: ClassVar[list[Mapping[str, Any]]] = []

    def do_GET(self) -> None:
        self.answer({"data": [{"id": "smol"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/extras/tokenize":
            self.answer({"tokens": [START, *map(ord, body["input"].replace("ab", "\u00e6"))]})
        elif self.path == "/extras/detokenize":
            self.answer({"text": "".join(map(chr, body["tokens"])).replace("\u00e6", "ab")})
        else:
            self.complete(body)

    def complete(self, body: Mapping[str, Any]) -> None:
        self.asked.append(body)
        if len(body["prompt"]) > 20:
            self.answer({"error": {"message": TOO_LONG, "code": "context_length_exceeded"}}, status=400)
            return
        usage = {"prompt_tokens": 1 + len(body["prompt"]), "completion_tokens": 2}
        self.answer({"choices": [{"text": " Al", "finish_reason": "length"}], "usage": usage})

    def answer(self, body: object, *, status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def client() -> Iterator[LlamaCppPythonClient]:
    Handler.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        with LlamaCppPythonClient(f"http://127.0.0.1:{server.server_port}") as found:
            yield found
        server.shutdown()
        thread.join()


def test_the_start_token_is_taken_off_where_it_was_not_asked_for(client: LlamaCppPythonClient) -> None:
    assert client.tokenize("xy", add_special=True, parse_special=True) == [START, 120, 121]
    assert client.tokenize("xy", add_special=False, parse_special=True) == [120, 121]


def test_ids_are_sent_as_the_text_that_comes_to_them(client: LlamaCppPythonClient) -> None:
    prompt = [START, *map(ord, "x\u00e6c")]
    answer = client.complete(prompt, max_tokens=3, cache_prompt=True, stop=["\n"], n_probs=5)
    (asked,) = Handler.asked
    assert asked["prompt"] == "xabc"
    assert (asked["temperature"], asked["repeat_penalty"], asked["stop"]) == (0.0, 1.0, ["\n"])
    assert "logprobs" not in asked
    assert (answer.text, answer.prompt_tokens, answer.finish) == (" Al", 5, "length")
    assert answer.truncated, "two tokens of three: the context ended"
    assert (answer.cached_tokens, answer.prefill_seconds, answer.top_logprobs) == (None, None, ())


def test_a_fresh_prompt_has_another_before_it(client: LlamaCppPythonClient) -> None:
    client.complete([START, 120], max_tokens=2, cache_prompt=False)
    assert [asked["prompt"] for asked in Handler.asked] == [".", "x"]


def test_ids_that_no_text_comes_to_are_refused(client: LlamaCppPythonClient) -> None:
    with pytest.raises(EngineError, match="its tokenizer leaves it at token 2 of 4") as caught:
        client.complete([START, 120, ord("a"), ord("b")], max_tokens=1, cache_prompt=True)
    assert caught.value.code == "prompt_not_text"
    assert not Handler.asked
    with pytest.raises(EngineError, match="at token 0 of 1"):
        client.complete([120], max_tokens=1, cache_prompt=True)


def test_a_prompt_that_is_too_long(client: LlamaCppPythonClient) -> None:
    with pytest.raises(PromptTooLongError) as caught:
        client.complete([START, *[120] * 30], max_tokens=4, cache_prompt=True)
    assert (caught.value.prompt_tokens, caught.value.context_len) == (3001, 2048)


def test_the_log_tells_what_no_route_does(client: LlamaCppPythonClient) -> None:
    assert client.healthy()
    report = client.report(LOG)
    assert (report.model_name, report.context_len, report.cells, report.freq_scale) == ("smol", 768, 768, 0.5)
    printed = report.printed("compute_buffer")
    assert printed is not None
    assert printed.bytes == round(98.25 * MIB)
    with pytest.raises(EngineError, match="does not tell the context"):
        client.report(LOG[:3])
    assert client.apply_template([{"role": "user", "content": "Hi"}]) is None
    for question in (client.load, client.context_len):
        with pytest.raises(EngineError) as caught:
            question()
        assert caught.value.code == "not_reported"


def test_nobody_there() -> None:
    with LlamaCppPythonClient(f"http://127.0.0.1:{free_port()}") as client:
        assert client.healthy() is False
