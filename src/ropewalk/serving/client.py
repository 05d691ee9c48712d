"""Asks a running server: its health, context, tokens and completions, the same for every engine."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from ropewalk.errors import EngineError, EngineTimeoutError
from ropewalk.limits import MAX_ANSWER_BYTES
from ropewalk.serving.server_report import ServerLoad, ServerReport, read_metrics
from ropewalk.units import format_bytes

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 5.0
QUESTION_SECONDS = 60.0  # anything but a completion: tokenizing a megabyte takes seconds on a busy machine
COMPLETION_SECONDS = 3600.0  # the prefill of a long prompt sends nothing until it is done

Message = Mapping[str, str]  # role, content


@dataclass(frozen=True, slots=True)
class TokenChoice:
    """A token that the model could have chosen, and the natural logarithm of its probability."""

    token: int | None
    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer and what the server counted on the way. Unknown is None.

    ``prompt_tokens`` is the whole prompt as the server counted it, ``cached_tokens`` the part of it that
    was reused and not computed; ``finish`` is ``stop`` (an end token or a stop text) or ``length``.
    ``truncated`` says that the server dropped tokens or ran into the end of its context.
    ``top_logprobs`` has one row per generated token, the most probable first.
    """

    text: str
    tokens: tuple[int, ...]
    prompt_tokens: int | None
    cached_tokens: int | None
    prefill_seconds: float | None
    decode_tokens_per_second: float | None
    truncated: bool
    finish: str
    top_logprobs: tuple[tuple[TokenChoice, ...], ...] = ()


# How a server shows the probability of tokens that are given: a step for each, or of a whole prompt at once.
Reading = Literal["stops", "whole"]


@dataclass(frozen=True, slots=True)
class TokenLosses:
    """What a server makes of given tokens: minus the natural logarithm of each one's probability.

    ``bounds`` are the places in ``losses`` where only a lower bound is known. ``prefill_seconds`` is what the
    tokens from ``evaluated_from`` to before the first of these took; None where that is not told.
    """

    losses: tuple[float, ...]
    bounds: tuple[int, ...] = ()
    evaluated_from: int | None = None
    prefill_seconds: float | None = None


class PromptTooLongError(EngineError):
    """The server refused a prompt that does not fit its context; either count is None if not told."""

    default_code = "prompt_too_long"

    def __init__(self, message: str, *, prompt_tokens: int | None, context_len: int | None) -> None:
        super().__init__(message, where={"prompt_tokens": prompt_tokens, "context_len": context_len})
        self.prompt_tokens = prompt_tokens
        self.context_len = context_len


class ServerClient(Protocol):
    """What every engine's client answers. Each method raises :class:`EngineError` when the server does
    not answer as expected, :class:`EngineTimeoutError` when it does not answer in time."""

    def healthy(self) -> bool:
        """Whether the server says that its model is loaded; False while it does not answer at all."""

    def context_len(self) -> int:
        """Tokens per sequence, prompt and answer together."""

    def model_ids(self) -> tuple[str, ...]:
        """The names under which requests may ask for the model."""

    def report(self, log_lines: Iterable[str]) -> ServerReport:
        """All that the server says of itself, over HTTP and in the lines of its log."""

    def load(self) -> ServerLoad:
        """What the server is doing now; answered between two steps of it."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Text to token ids; ``add_special`` puts the model's own start token before it,
        ``parse_special`` reads the text of a special token as that token."""

    def detokenize(self, tokens: Sequence[int]) -> str:
        """The text of these token ids, by the server's own tokenizer."""

    def apply_template(
        self, messages: Sequence[Message], *, template_options: Mapping[str, Any] | None = None
    ) -> str | None:
        """The prompt that a chat is rendered to, open for the answer; None where there is no template.

        ``template_options`` are handed to the template (``chat_template_kwargs``); what it does not know it
        ignores.
        """

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
        """Continue the prompt greedily. Raises :class:`PromptTooLongError` as well."""

    def token_losses(self, tokens: Sequence[int], spans: Sequence[tuple[int, int]]) -> Iterator[TokenLosses]:
        """The losses of ``tokens[start:end]`` after all that stands before them, for each span in turn.

        Spans ascend and begin at 1 or later. Where the engine's ``READING`` is ``stops``, each is evaluated
        when it is asked for. Raises :class:`PromptTooLongError` as well.
        """

    def close(self) -> None:
        """Close the connection to the server; a request that waits in another thread fails."""


class HttpClient:
    """JSON over HTTP with our errors; the base of each engine's client."""

    def __init__(self, base_url: str, *, api_key: str | None = None) -> None:
        import httpx2

        self.base_url = base_url
        self._sockets: list[socket.socket] = []
        self._http = httpx2.Client(
            base_url=base_url,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=httpx2.Timeout(QUESTION_SECONDS, connect=CONNECT_SECONDS),
            trust_env=False,  # a proxy has no business between us and a server of our own
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to the server; a request that waits in another thread fails."""
        for each in self._sockets:
            with contextlib.suppress(OSError):  # closed already
                each.shutdown(socket.SHUT_RDWR)  # only this wakes who waits for an answer
        self._http.close()

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Told by httpcore what it does; a new connection is kept in mind, see :meth:`close`."""
        if event == "connection.connect_tcp.complete":
            still_open = [each for each in self._sockets if each.fileno() != -1]
            self._sockets = [*still_open, info["return_value"].get_extra_info("socket")]

    def healthy(self) -> bool:
        """Whether ``/health`` answers 200; llama-server and vLLM both answer otherwise while loading."""
        import httpx2

        try:
            with self._http.stream("GET", "/health", timeout=CONNECT_SECONDS) as response:
                return response.status_code == 200
        except httpx2.TransportError:
            return False

    def _metrics(self) -> dict[str, float]:
        response = self._send("GET", "/metrics", None, QUESTION_SECONDS)
        if response.status_code != 200:
            raise self._refusal("/metrics", response)
        return read_metrics(response.text)

    def _get(self, path: str) -> Any:
        return self._json(path, self._send("GET", path, None, QUESTION_SECONDS))

    def _post(self, path: str, body: Mapping[str, Any], *, seconds: float = QUESTION_SECONDS) -> Any:
        return self._json(path, self._send("POST", path, body, seconds))

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, seconds: float
    ) -> httpx2.Response:
        import httpx2

        timeout, deadline = httpx2.Timeout(seconds, connect=CONNECT_SECONDS), time.monotonic() + seconds
        late = f"{self.base_url}{path} did not answer within {seconds:g} s"
        content = bytearray()
        try:
            with self._http.stream(
                method, path, json=body, timeout=timeout, extensions={"trace": self._trace}
            ) as response:
                for chunk in response.iter_bytes():
                    content += chunk
                    if len(content) > MAX_ANSWER_BYTES:
                        raise EngineError(
                            f"{self.base_url}{path} answers more than {format_bytes(MAX_ANSWER_BYTES)}",
                            code="engine_answer_too_large",
                            where={**self._where(path), "limit_bytes": MAX_ANSWER_BYTES},
                        )
                    if time.monotonic() > deadline:
                        raise EngineTimeoutError(late, where=self._where(path))
            return httpx2.Response(response.status_code, content=bytes(content))
        except httpx2.TimeoutException as error:
            raise EngineTimeoutError(late, where=self._where(path)) from error
        except (httpx2.TransportError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not self._http.is_closed:
                raise
            raise EngineError(
                f"{self.base_url}{path} cannot be reached: {error}",
                code="engine_unreachable",
                where=self._where(path),
            ) from error

    def _json(self, path: str, response: httpx2.Response) -> Any:
        if response.status_code != 200:
            raise self._refusal(path, response)
        try:
            return response.json()
        except ValueError as error:
            raise EngineError(
                f"{self.base_url}{path} answered something that is no JSON", where=self._where(path)
            ) from error

    def _refusal(self, path: str, response: httpx2.Response) -> EngineError:
        """The error for an answer other than 200; an engine's client knows its own refusals."""
        return EngineError(
            f"{self.base_url}{path} answered {response.status_code}: {response.text[:500]}",
            code="engine_refused",
            where={**self._where(path), "status": response.status_code},
        )

    def _where(self, path: str) -> dict[str, Any]:
        return {"url": f"{self.base_url}{path}"}
