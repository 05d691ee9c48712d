"""The client of vLLM against canned answers in the forms of 0.32.0."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ropewalk.serving.client import PromptTooLongError
from ropewalk.serving.engines.vllm.client import VllmClient

METRICS = """\
# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="128",cache_dtype="auto",kv_cache_memory_bytes="500000000",num_gpu_blocks="169"} 1.0
"""  # noqa: E501 - as printed
TIMES = """\
vllm:request_prefill_time_seconds_count{{engine="0",model_name="smol"}} {count}.0
vllm:request_prefill_time_seconds_sum{{engine="0",model_name="smol"}} {prefill}
vllm:request_decode_time_seconds_sum{{engine="0",model_name="smol"}} {decode}
"""
TOO_LONG = (
    "This model's maximum context length is 1024 tokens. However, your prompt contains "
    "at least 1025 input tokens, resulting in 1075 tokens."
)
COMPLETION: dict[str, Any] = {
    "choices": [
        {
            "text": " Paris",
            "token_ids": [9046],
            "finish_reason": "length",
            "logprobs": {"top_logprobs": [{" the": -2.5, " Paris": -0.25}]},
        }
    ],
    "usage": {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}},
}


class Handler(BaseHTTPRequestHandler):
    """Answers by path; keeps what was asked."""

    asked: list[dict[str, Any]] = []  # noqa: RUF012 - emptied by the fixture
    others = 0  # requests of other clients that end beside each of ours

    def do_GET(self) -> None:
        if self.path == "/metrics":
            done = sum("prompt" in body and "max_tokens" in body for body in Handler.asked)
            count = done * (1 + Handler.others)
            self.answer(METRICS + TIMES.format(count=count, prefill=3.0 * count, decode=0.5 * count))
        else:
            self.answer({"data": [{"id": "smol", "max_model_len": 1024}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Handler.asked.append(body)
        if self.path == "/tokenize" and "messages" in body:
            message = "As of transformers v4.44, default chat template is no longer allowed"
            self.answer({"error": {"message": message}}, status=400)
        elif self.path == "/tokenize":
            self.answer({"count": 2, "tokens": [7, 8]})
        elif len(body["prompt"]) > 1024:
            self.answer({"error": {"message": TOO_LONG}}, status=400)
        elif "prompt_logprobs" in body:
            listed = [{str(token): {"logprob": -token / 4, "rank": 1}} for token in body["prompt"]]
            choice = {**COMPLETION["choices"][0], "prompt_logprobs": [None, *listed[1:]]}
            self.answer({**COMPLETION, "choices": [choice]})
        else:
            usage = {**COMPLETION["usage"], "completion_tokens": body["max_tokens"]}
            self.answer({**COMPLETION, "usage": usage})

    def answer(self, body: object, *, status: int = 200) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def client() -> Iterator[VllmClient]:
    Handler.asked.clear()
    Handler.others = 0
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        with VllmClient(f"http://127.0.0.1:{server.server_port}") as client:
            yield client
        server.shutdown()
        thread.join()


def test_the_report_is_exact_where_the_metrics_are(client: VllmClient) -> None:
    report = client.report(["Model loading took 0.25 GiB memory", "Available KV cache memory: 0.47 GiB"])
    assert (report.model_name, report.context_len, report.num_sequences) == ("smol", 1024, None)
    assert report.cells == 169 * 128
    cache = report.printed("kv_cache")
    assert cache is not None
    assert (cache.bytes, cache.rounding_bytes) == (500_000_000, 0)
    assert report.printed("weights") is not None


def test_a_completion(client: VllmClient) -> None:
    answer = client.complete([1, 2, 3, 4, 5], max_tokens=1, cache_prompt=True, n_probs=2, stop=["\n"])
    assert (answer.text, answer.tokens, answer.finish) == (" Paris", (9046,), "length")
    assert (answer.prompt_tokens, answer.cached_tokens) == (5, 4)
    assert [choice.text for choice in answer.top_logprobs[0]] == [" Paris", " the"]
    (asked,) = Handler.asked
    assert asked["max_tokens"] == 1
    assert asked["temperature"] == 0.0
    assert asked["stop"] == ["\n"]
    assert "cache_salt" not in asked


def test_all_losses_of_a_prompt_come_from_one_request(client: VllmClient) -> None:
    first, second = client.token_losses([8, 6, 4, 2], [(1, 3), (3, 4)])
    assert (first.losses, second.losses) == ((1.5, 1.0), (0.5,))
    assert (first.evaluated_from, first.prefill_seconds, second.prefill_seconds) == (0, 3.0, None)
    assert (first.bounds, second.bounds) == ((), ())
    (asked,) = Handler.asked
    assert (asked["prompt_logprobs"], asked["max_tokens"]) == (0, 1)


def test_an_answer_is_timed_by_what_the_metrics_grew_by(client: VllmClient) -> None:
    client.complete([1], max_tokens=1, cache_prompt=True)
    answer = client.complete([1], max_tokens=11, cache_prompt=True)
    assert answer.prefill_seconds == 3.0
    assert answer.decode_tokens_per_second == 10 / 0.5
    Handler.others = 1  # whose time it was cannot be told
    crowded = client.complete([1], max_tokens=11, cache_prompt=True)
    assert (crowded.prefill_seconds, crowded.decode_tokens_per_second) == (None, None)


def test_without_the_cache_every_request_has_a_salt_of_its_own(client: VllmClient) -> None:
    client.complete([1], max_tokens=1, cache_prompt=False)
    client.complete([1], max_tokens=1, cache_prompt=False)
    first, second = (asked["cache_salt"] for asked in Handler.asked)
    assert first != second


def test_a_prompt_that_is_too_long_is_told_with_both_counts(client: VllmClient) -> None:
    with pytest.raises(PromptTooLongError) as caught:
        client.complete([1] * 1025, max_tokens=50, cache_prompt=False)
    assert (caught.value.prompt_tokens, caught.value.context_len) == (1025, 1024)


def test_tokens(client: VllmClient) -> None:
    assert client.tokenize("ab", add_special=True, parse_special=True) == [7, 8]
    assert Handler.asked[0]["add_special_tokens"] is True


def test_a_model_without_a_template(client: VllmClient) -> None:
    assert client.apply_template([{"role": "user", "content": "Hi"}]) is None
