"""The HTTP interface of vLLM (0.32.0): the OpenAI routes, and its own for tokens and metrics."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ropewalk.errors import EngineError
from ropewalk.serving.client import (
    COMPLETION_SECONDS,
    QUESTION_SECONDS,
    Completion,
    HttpClient,
    Message,
    PromptTooLongError,
    TokenChoice,
    TokenLosses,
)
from ropewalk.serving.engines.vllm import log as vllm_log
from ropewalk.serving.server_report import PrintedBuffer, ServerLoad, ServerReport

if TYPE_CHECKING:
    import httpx2

_TOO_LONG = re.compile(
    r"maximum context length is (\d+) tokens.*?(?:at least )?(\d+) input tokens", re.DOTALL
)
_CACHE_INFO = re.compile(r"^vllm:cache_config_info\{(.*)\}", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Spent:
    """What requests took: in all since the server began, or between two such counts."""

    requests: int
    prefill_seconds: float
    decode_seconds: float

    def until(self, later: Spent) -> Spent:
        """The requests that ended from here to there."""
        return Spent(
            later.requests - self.requests,
            later.prefill_seconds - self.prefill_seconds,
            later.decode_seconds - self.decode_seconds,
        )


class VllmClient(HttpClient):
    """A client of one vLLM server; see :class:`ropewalk.serving.client.ServerClient`."""

    def context_len(self) -> int:
        """``max_model_len``: tokens of a prompt and its answer together."""
        return int(self._model()["max_model_len"])

    def model_ids(self) -> tuple[str, ...]:
        """The names given by ``--served-model-name``."""
        return tuple(model["id"] for model in self._get("/v1/models")["data"])

    def report(self, log_lines: Iterable[str]) -> ServerReport:
        """What the server says over HTTP, with what only its log tells: the weights, and a cache that was
        sized by utilisation. The cache is that of one rank; ``cells`` are its blocks times their size.
        """
        lines = tuple(log_lines)
        printed, config = vllm_log.parse(lines), self.cache_config()
        blocks, block_size = config.get("num_gpu_blocks", ""), config.get("block_size", "")
        size = config.get("kv_cache_memory_bytes", "")
        exact = (PrintedBuffer("kv_cache", "rank 0", int(size), 0),) if size.isdecimal() else ()
        return ServerReport(
            model_name=self.model_ids()[0],
            context_len=self.context_len(),
            num_sequences=None,
            cells=int(blocks) * int(block_size) if blocks.isdecimal() and block_size.isdecimal() else None,
            buffers=(*(other for other in printed if not (exact and other.name == "kv_cache")), *exact),
            max_concurrency=_number(config.get("kv_cache_max_concurrency"))
            or vllm_log.max_concurrency(lines),
        )

    def load(self) -> ServerLoad:
        """``/metrics``, of all ranks together. Blocks kept of finished requests do not count."""
        metrics = self._metrics()
        share = metrics.get("vllm:kv_cache_usage_perc")
        return ServerLoad(
            running=int(metrics.get("vllm:num_requests_running", 0)),
            waiting=int(metrics.get("vllm:num_requests_waiting", 0)),
            kv_share=share,
            kv_tokens=None,
            prompt_tokens=int(metrics.get("vllm:prompt_tokens_total", 0)),
            generated_tokens=int(metrics.get("vllm:generation_tokens_total", 0)),
        )

    def cache_config(self) -> dict[str, str]:
        """What ``/metrics`` tells of the KV cache: ``block_size``, ``num_gpu_blocks`` and so on, as text."""
        text = self._send("GET", "/metrics", None, QUESTION_SECONDS).text
        match = _CACHE_INFO.search(text)
        return dict(_LABEL.findall(match[1])) if match else {}

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Text to token ids. vLLM reads the text of a special token as that token whatever is asked for;
        ``parse_special`` makes no difference to a text without one."""
        body = {"model": self._name(), "prompt": text, "add_special_tokens": add_special}
        tokens: list[int] = self._post("/tokenize", body)["tokens"]
        return tokens

    def detokenize(self, tokens: Sequence[int]) -> str:
        """Token ids to text."""
        return str(self._post("/detokenize", {"model": self._name(), "tokens": list(tokens)})["prompt"])

    def apply_template(
        self, messages: Sequence[Message], *, template_options: Mapping[str, Any] | None = None
    ) -> str | None:
        """The chat as one prompt; None where the checkpoint brings no template."""
        body: dict[str, Any] = {
            "model": self._name(),
            "messages": [dict(message) for message in messages],
            "add_generation_prompt": True,
        }
        if template_options:
            body["chat_template_kwargs"] = dict(template_options)
        try:
            tokens = self._post("/tokenize", body)["tokens"]
        except EngineError as error:
            if "chat template" in error.message:
                return None
            raise
        return self.detokenize(tokens)

    def complete(
        self,
        prompt_tokens: Sequence[int],
        *,
        max_tokens: int,
        cache_prompt: bool,
        stop: Sequence[str] = (),
        n_probs: int = 0,
        timeout_seconds: float = COMPLETION_SECONDS,
    ) -> Completion:
        """Continue the prompt greedily.

        An answer has no timings of its own: they are what the histograms of ``/metrics`` grew by, and None
        where another request ended in between.
        """
        body: dict[str, Any] = {
            "model": self._name(),
            "prompt": list(prompt_tokens),
            "max_tokens": max_tokens,
            "stop": list(stop),
            "temperature": 0.0,
            "seed": 0,
            "return_token_ids": True,
        }
        if n_probs:
            body["logprobs"] = n_probs
        if not cache_prompt:
            body["cache_salt"] = uuid.uuid4().hex  # blocks of other requests do not match then
        before = self._spent()
        answer = self._post("/v1/completions", body, seconds=timeout_seconds)
        return _completion(answer, before.until(self._spent()))

    def token_losses(self, tokens: Sequence[int], spans: Sequence[tuple[int, int]]) -> Iterator[TokenLosses]:
        """The losses of given tokens. The true token is always listed, so none is a bound."""
        body = {
            "model": self._name(),
            "prompt": list(tokens),
            "max_tokens": 1,
            "temperature": 0.0,
            "seed": 0,
            "prompt_logprobs": 0,  # the true tokens alone
        }
        before = self._spent()
        answer = self._post("/v1/completions", body, seconds=COMPLETION_SECONDS)
        spent = before.until(self._spent())
        listed = answer["choices"][0].get("prompt_logprobs") or ()
        if len(listed) != len(tokens):
            raise EngineError(
                f"the server gave probabilities of {len(listed)} tokens of {len(tokens)}",
                where={"sent": len(tokens), "listed": len(listed)},
            )
        for number, (start, end) in enumerate(spans):
            losses = tuple(-float(listed[at][str(tokens[at])]["logprob"]) for at in range(start, end))
            is_timed = number == 0 and spent.requests == 1
            yield TokenLosses(
                losses=losses,
                evaluated_from=0 if is_timed else None,
                prefill_seconds=spent.prefill_seconds if is_timed else None,
            )

    def _spent(self) -> Spent:
        try:
            metrics = self._metrics()
        except EngineError:  # an answer is worth more than its timing
            metrics = {}
        return Spent(
            requests=int(metrics.get("vllm:request_prefill_time_seconds_count", 0)),
            prefill_seconds=metrics.get("vllm:request_prefill_time_seconds_sum", 0.0),
            decode_seconds=metrics.get("vllm:request_decode_time_seconds_sum", 0.0),
        )

    def _name(self) -> str:
        return str(self._model()["id"])

    def _model(self) -> Mapping[str, Any]:
        model: Mapping[str, Any] = self._get("/v1/models")["data"][0]
        return model

    def _refusal(self, path: str, response: httpx2.Response) -> EngineError:
        match = _TOO_LONG.search(response.text) if response.status_code == 400 else None
        if match:
            return PromptTooLongError(
                response.text[:500], prompt_tokens=int(match[2]), context_len=int(match[1])
            )
        return super()._refusal(path, response)


def _completion(answer: Mapping[str, Any], spent: Spent) -> Completion:
    choice = answer["choices"][0]
    usage = answer["usage"]
    is_alone, steps = spent.requests == 1, usage["completion_tokens"] - 1  # the first token is the prefill's
    return Completion(
        text=choice["text"],
        tokens=tuple(choice.get("token_ids") or ()),
        prompt_tokens=usage["prompt_tokens"],
        cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        prefill_seconds=spent.prefill_seconds if is_alone else None,
        decode_tokens_per_second=steps / spent.decode_seconds if is_alone and spent.decode_seconds else None,
        truncated=False,
        finish=choice["finish_reason"],
        top_logprobs=_choices(choice.get("logprobs")),
    )


def _choices(logprobs: Mapping[str, Any] | None) -> tuple[tuple[TokenChoice, ...], ...]:
    """OpenAI's completion form has texts for keys and no ids."""
    steps = (logprobs or {}).get("top_logprobs") or ()
    return tuple(
        tuple(
            TokenChoice(token=None, text=text, logprob=logprob)
            for text, logprob in sorted(step.items(), key=lambda pair: -pair[1])
        )
        for step in steps
    )


def _number(text: str | None) -> float | None:
    """``"3.5"``; None for ``"None"`` and where nothing is told."""
    try:
        return float(text or "")
    except ValueError:
        return None
