"""The HTTP interface of llama-cpp-python's server (0.3.36, ``llama_cpp/server/app.py``).

It takes text for a prompt, and no token ids: a prompt is sent as text only where the server's own tokenizer
makes exactly the planned ids of it. It applies the chat template to chats alone, and tells neither the length
of its context nor what it is doing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ropewalk.errors import EngineError
from ropewalk.serving.client import (
    COMPLETION_SECONDS,
    CONNECT_SECONDS,
    Completion,
    HttpClient,
    Message,
    PromptTooLongError,
    TokenLosses,
)
from ropewalk.serving.engines.llama_cpp import log as llama_log
from ropewalk.serving.server_report import ServerLoad, ServerReport

if TYPE_CHECKING:
    import httpx2

_TOO_LONG = re.compile(r"maximum context length is (\d+) tokens.*?(\d+) in (?:your prompt|the messages)")
_CONTEXT = re.compile(r"llama_context: n_ctx_seq\s+= (\d+)")
_OTHER = "."  # evaluated in between, so that the prompt after it shares nothing with the one before


class LlamaCppPythonClient(HttpClient):
    """A client of one server; see :class:`ropewalk.serving.client.ServerClient`."""

    def __init__(self, base_url: str, *, api_key: str | None = None) -> None:
        super().__init__(base_url, api_key=api_key)
        self._always_first: list[int] | None = None

    def healthy(self) -> bool:
        """Whether anything answers: the model is loaded before the server listens, and has no route for it.

        A route that waits for no request in progress.
        """
        import httpx2

        try:
            return self._http.get("/openapi.json", timeout=CONNECT_SECONDS).status_code == 200
        except httpx2.TransportError:
            return False

    def context_len(self) -> int:
        """Raises :class:`EngineError`: only the log tells it, see :meth:`report`."""
        raise EngineError("llama-cpp-python's server tells its context in its log alone", code="not_reported")

    def model_ids(self) -> tuple[str, ...]:
        """The one model's alias."""
        return tuple(model["id"] for model in self._get("/v1/models")["data"])

    def report(self, log_lines: Iterable[str]) -> ServerReport:
        """What the log tells. Raises :class:`EngineError` where it has no line of the context."""
        lines = list(log_lines)
        printed = llama_log.parse(lines)
        lengths = [int(match[1]) for line in lines if (match := _CONTEXT.search(line))]
        if not lengths:
            raise EngineError("llama-cpp-python's log does not tell the context: --verbose is needed")
        return ServerReport(
            model_name=self.model_ids()[0],
            context_len=lengths[-1],
            num_sequences=1,
            cells=printed.cells,
            buffers=printed.buffers,
            freq_scale=printed.freq_scale,
        )

    def load(self) -> ServerLoad:
        """Raises :class:`EngineError` (``not_reported``)."""
        raise EngineError("llama-cpp-python's server does not say what it is doing", code="not_reported")

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Text to token ids. The server always adds and always reads special tokens: those added are taken
        off again, and a prompt with those read in plain text is refused by :meth:`complete`."""
        tokens = self._tokens(text)
        return tokens if add_special else tokens[len(self._start(tokens)) :]

    def detokenize(self, tokens: Sequence[int]) -> str:
        """Token ids to text; special tokens have none."""
        return str(self._post("/extras/detokenize", {"tokens": list(tokens)})["text"])

    def apply_template(
        self, messages: Sequence[Message], *, template_options: Mapping[str, Any] | None = None
    ) -> str | None:
        """None: no route shows the prompt that a chat is rendered to, so prompts are plain text."""
        return None

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

        Raises :class:`EngineError` (``prompt_not_text``) where no text encodes to these ids. There are no
        log-probabilities, which need logits for every token (``--logits_all``); nothing is timed, and what
        was taken from the cache is not told: without ``cache_prompt`` another prompt is evaluated before.
        """
        text = self._text_of(list(prompt_tokens))
        if not cache_prompt:
            self._complete(_OTHER, 1, (), timeout_seconds)
        answer = self._complete(text, max_tokens, stop, timeout_seconds)
        choice, usage = answer["choices"][0], answer["usage"]
        return Completion(
            text=choice["text"],
            tokens=(),
            prompt_tokens=usage["prompt_tokens"],
            cached_tokens=None,
            prefill_seconds=None,
            decode_tokens_per_second=None,
            truncated=choice["finish_reason"] == "length" and usage["completion_tokens"] < max_tokens,
            finish=choice["finish_reason"],
        )

    def token_losses(self, tokens: Sequence[int], spans: Sequence[tuple[int, int]]) -> Iterator[TokenLosses]:
        """Raises :class:`EngineError` (``not_reported``)."""
        raise EngineError("llama-cpp-python's server shows no probabilities", code="not_reported")

    def _complete(self, text: str, max_tokens: int, stop: Sequence[str], seconds: float) -> Mapping[str, Any]:
        body = {
            "prompt": text,
            "max_tokens": max_tokens,
            "stop": list(stop),
            "temperature": 0.0,
            "repeat_penalty": 1.0,
        }
        answer: Mapping[str, Any] = self._post("/v1/completions", body, seconds=seconds)
        return answer

    def _text_of(self, tokens: list[int]) -> str:
        """The text that the server makes these ids of."""
        text = self.detokenize(tokens[len(self._start(tokens)) :])
        found = self._tokens(text)
        if found == tokens:
            return text
        at = next(
            (i for i, (one, other) in enumerate(zip(found, tokens, strict=False)) if one != other), None
        )
        at = min(len(found), len(tokens)) if at is None else at
        raise EngineError(
            "llama-cpp-python's server takes text, and no text encodes to this prompt: "
            f"its tokenizer leaves it at token {at} of {len(tokens)}",
            code="prompt_not_text",
            where={"token": at, "prompt_tokens": len(tokens)},
        )

    def _start(self, tokens: Sequence[int]) -> list[int]:
        """The special tokens that every prompt begins with, if this one does."""
        if self._always_first is None:
            self._always_first = self._tokens("")
        start = self._always_first
        return start if list(tokens[: len(start)]) == start else []

    def _tokens(self, text: str) -> list[int]:
        tokens: list[int] = self._post("/extras/tokenize", {"input": text})["tokens"]
        return tokens

    def _refusal(self, path: str, response: httpx2.Response) -> EngineError:
        match = _TOO_LONG.search(response.text) if response.status_code == 400 else None
        if match:
            return PromptTooLongError(
                response.text[:500], prompt_tokens=int(match[2]), context_len=int(match[1])
            )
        return super()._refusal(path, response)
