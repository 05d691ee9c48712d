"""The HTTP interface of llama.cpp's server (b11434, ``tools/server/README.md``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk.errors import EngineError
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.serving.client import (
    COMPLETION_SECONDS,
    Completion,
    HttpClient,
    Message,
    PromptTooLongError,
    TokenChoice,
    TokenLosses,
)
from ropewalk.serving.engines.llama_cpp import log as llama_log
from ropewalk.serving.server_report import ServerLoad, ServerReport

if TYPE_CHECKING:
    import httpx2

# Most true tokens are among the first few; the longer list is asked for only where one is not.
_LIST_LENGTHS = (100, 5_000)
_FINISH = {"eos": "stop", "word": "stop", "limit": "length"}


class LlamaClient(HttpClient):
    """A client of one llama.cpp server; see :class:`ropewalk.serving.client.ServerClient`.

    ``model`` is the file that it serves, where it is at hand: the server makes up a template for a model
    without one (ChatML, common/chat.cpp), so that only the file tells.
    """

    def __init__(self, base_url: str, *, model: Path | None = None, api_key: str | None = None) -> None:
        super().__init__(base_url, api_key=api_key)
        self._model = model

    def context_len(self) -> int:
        """Tokens per slot. ``/props`` gives it per slot already; dividing it again would be wrong."""
        return int(self._get("/props")["default_generation_settings"]["n_ctx"])

    def model_ids(self) -> tuple[str, ...]:
        """The one model's name: its alias, or the path that it was loaded from."""
        return tuple(model["id"] for model in self._get("/v1/models")["data"])

    def report(self, log_lines: Iterable[str]) -> ServerReport:
        """What the server says over HTTP, with the sizes that it printed."""
        printed = llama_log.parse(log_lines)
        return ServerReport(
            model_name=self.model_ids()[0],
            context_len=self.context_len(),
            num_sequences=int(self._get("/props")["total_slots"]),
            cells=printed.cells,
            buffers=printed.buffers,
            freq_scale=printed.freq_scale,
        )

    def load(self) -> ServerLoad:
        """``/metrics`` and ``/slots``. Totals grow when a prompt or an answer is done, not while it runs."""
        slots, metrics = self._get("/slots"), self._metrics()
        held = sum(int(slot["n_prompt_tokens"]) for slot in slots)
        return ServerLoad(
            running=sum(bool(slot["is_processing"]) for slot in slots),
            waiting=int(metrics["llamacpp:requests_deferred"]),
            kv_share=held / sum(int(slot["n_ctx"]) for slot in slots),
            kv_tokens=held,
            prompt_tokens=int(metrics["llamacpp:prompt_tokens_total"]),
            generated_tokens=int(metrics["llamacpp:tokens_predicted_total"]),
            prompt_seconds=metrics["llamacpp:prompt_seconds_total"],
            generated_seconds=metrics["llamacpp:tokens_predicted_seconds_total"],
        )

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Text to token ids."""
        body = {"content": text, "add_special": add_special, "parse_special": parse_special}
        tokens: list[int] = self._post("/tokenize", body)["tokens"]
        return tokens

    def detokenize(self, tokens: Sequence[int]) -> str:
        """Token ids to text."""
        return str(self._post("/detokenize", {"tokens": list(tokens)})["content"])

    def apply_template(
        self, messages: Sequence[Message], *, template_options: Mapping[str, Any] | None = None
    ) -> str | None:
        """The chat as one prompt; None where the checkpoint brings no template."""
        if self._model and "tokenizer.chat_template" not in open_checkpoint(self._model).gguf:
            return None
        body: dict[str, Any] = {"messages": [dict(message) for message in messages]}
        if template_options:
            body["chat_template_kwargs"] = dict(template_options)
        return str(self._post("/apply-template", body)["prompt"])

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
        """Continue the prompt greedily."""
        body = {
            "prompt": list(prompt_tokens),
            "n_predict": max_tokens,
            "cache_prompt": cache_prompt,
            "stop": list(stop),
            "n_probs": n_probs,
            "return_tokens": True,
            "temperature": 0.0,
            "seed": 0,
        }
        return _completion(self._post("/completion", body, seconds=timeout_seconds))

    def token_losses(self, tokens: Sequence[int], spans: Sequence[tuple[int, int]]) -> Iterator[TokenLosses]:
        """The losses of given tokens, read from the list of the most probable next ones.

        The prefix stays in the cache, so a step evaluates one token. A true token outside the list has at
        most the probability of the last one in it: a bound.
        """
        for start, end in spans:
            first = self._next(tokens, start, _LIST_LENGTHS[0])
            read = [self._loss(tokens, at, first if at == start else None) for at in range(start, end)]
            yield TokenLosses(
                losses=tuple(loss for loss, _ in read),
                bounds=tuple(index for index, (_, is_bound) in enumerate(read) if is_bound),
                evaluated_from=first.cached_tokens,
                prefill_seconds=first.prefill_seconds,
            )

    def _loss(self, tokens: Sequence[int], at: int, known: Completion | None) -> tuple[float, bool]:
        """The loss of one token, and whether it is a lower bound."""
        choices: tuple[TokenChoice, ...] = ()
        for length in _LIST_LENGTHS:
            completion = known or self._next(tokens, at, length)
            known = None
            choices = completion.top_logprobs[0]
            found = next((choice.logprob for choice in choices if choice.token == tokens[at]), None)
            if found is not None:
                return -found, False
        return -choices[-1].logprob, True

    def _next(self, tokens: Sequence[int], at: int, list_length: int) -> Completion:
        completion = self.complete(tokens[:at], max_tokens=1, cache_prompt=True, n_probs=list_length)
        if completion.prompt_tokens != at or not completion.top_logprobs:
            raise EngineError(
                f"the server evaluated {completion.prompt_tokens} tokens of {at} and gave "
                f"{len(completion.top_logprobs)} lists of probable tokens where one was asked for",
                where={"sent": at, "evaluated": completion.prompt_tokens},
            )
        return completion

    def _refusal(self, path: str, response: httpx2.Response) -> EngineError:
        error = _error_of(response)
        if error.get("type") == "exceed_context_size_error":
            return PromptTooLongError(
                str(error.get("message")),
                prompt_tokens=error.get("n_prompt_tokens"),
                context_len=error.get("n_ctx"),
            )
        return super()._refusal(path, response)


def _completion(answer: Mapping[str, Any]) -> Completion:
    timings = answer["timings"]
    return Completion(
        text=answer["content"],
        tokens=tuple(answer["tokens"]),
        prompt_tokens=timings["cache_n"] + timings["prompt_n"],
        cached_tokens=timings["cache_n"],
        prefill_seconds=timings["prompt_ms"] / 1000,
        decode_tokens_per_second=timings["predicted_per_second"],
        truncated=answer["truncated"],
        finish=_FINISH.get(answer["stop_type"], answer["stop_type"]),
        top_logprobs=tuple(_choices(step) for step in answer.get("completion_probabilities", ())),
    )


def _choices(step: Mapping[str, Any]) -> tuple[TokenChoice, ...]:
    return tuple(
        TokenChoice(token=choice["id"], text=choice["token"], logprob=choice["logprob"])
        for choice in step["top_logprobs"]
    )


def _error_of(response: httpx2.Response) -> Mapping[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) else {}
