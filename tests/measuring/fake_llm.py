"""A server in memory: a word tokenizer, a chat template, and a model that finds needles by reading.

Its faults are planted one at a time, to see that each is caught.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ropewalk.errors import EngineError
from ropewalk.serving.client import Completion, PromptTooLongError, TokenChoice, TokenLosses

_TOKEN = re.compile(r"<\|\w+\|>| ?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]|\s")
_OPENING = re.compile(r"The special magic number for (\w+) is$")
BEGIN = "<|begin|>"


@dataclass
class FakeServer:
    """``window`` is how many of the last tokens the model remembers, None for all. ``words`` and ``ids``
    are the vocabulary; servers of one model share it. ``thinks``: the template has a ``switch`` for thoughts
    (Qwen3), ``begins`` one whatever it is told (DeepSeek-R1), or the model thinks unasked (``always``)."""

    context: int = 4096
    window: int | None = None
    template: bool = True
    thinks: str = ""
    begin: bool = True
    writes_begin: bool = False  # the template itself has the start token
    end: bool = False
    truncates: bool = False
    shifts: bool = False
    lists_all: bool = False
    miscounts: int = 0
    babbles: bool = False
    answer: str | None = None
    dies_after: int | None = None
    logprob: float = -0.25
    breaks_at: int | None = None
    adds: float = 0.0
    asked: list[tuple[int, ...]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        plain = text if parse_special else text.replace("<|", "< |")
        pieces = _TOKEN.findall(plain)
        if add_special:
            pieces = [BEGIN] * self.begin + pieces + ["<|end|>"] * self.end
        return [self._id(piece) for piece in pieces]

    def detokenize(self, tokens: Sequence[int]) -> str:
        return "".join(self.words[token] for token in tokens)

    def apply_template(
        self, messages: Sequence[Mapping[str, str]], *, template_options: Mapping[str, Any] | None = None
    ) -> str | None:
        if not self.template:
            return None
        turns = "".join(f"<|{message['role']}|>\n{message['content']}<|stop|>\n" for message in messages)
        is_off = self.thinks == "switch" and not (template_options or {}).get("enable_thinking", True)
        opened = "<think>\n" if self.thinks == "begins" else "<think>\n\n</think>\n\n" * is_off
        return f"{BEGIN * self.writes_begin}{turns}<|assistant|>\n{opened}"

    def token_losses(self, tokens: Sequence[int], spans: Sequence[tuple[int, int]]) -> Iterator[TokenLosses]:
        """Two nats and some that the token decides, and ``adds``; one more from ``breaks_at`` on."""
        before = 0
        for start, end in spans:
            if self.is_dead:
                raise EngineError("connection refused", code="engine_unreachable")
            if end > self.context:
                raise PromptTooLongError("too long", prompt_tokens=end, context_len=self.context)
            self.asked.append(tuple(tokens[:end]))
            rise = self.adds
            rise += 1.0 if self.breaks_at is not None and start >= self.breaks_at else 0.0
            losses = tuple(2.0 + tokens[at] % 7 / 10 + rise for at in range(start, end))
            yield TokenLosses(losses, (), before, 0.001 * (start - before))
            before = end

    def complete(
        self,
        prompt_tokens: Sequence[int],
        *,
        max_tokens: int,
        cache_prompt: bool,
        stop: Sequence[str] = (),
        n_probs: int = 0,
    ) -> Completion:
        if self.is_dead:
            raise EngineError("connection refused", code="engine_unreachable")
        tokens = tuple(prompt_tokens)
        if self.truncates and len(tokens) > self.context:
            tokens = tokens[-self.context // 2 :]
        cached = _common(self.asked[-1], tokens) if cache_prompt and self.asked else 0
        self.asked.append(tokens)
        if len(tokens) >= self.context:
            raise PromptTooLongError("too long", prompt_tokens=len(tokens), context_len=self.context)
        answer = self.tokenize(self._answer(tokens), add_special=False, parse_special=False)
        if self.shifts:
            answer = (answer * self.context)[: self.context - len(tokens) + 8]
        return Completion(
            text=self.detokenize(answer[:max_tokens]),
            tokens=tuple(answer[:max_tokens]),
            prompt_tokens=len(tokens) + self.miscounts,
            cached_tokens=min(cached, len(tokens) - 1),
            prefill_seconds=0.001 * (len(tokens) - cached),
            decode_tokens_per_second=50.0,
            truncated=self.shifts,
            finish="length" if len(answer) > max_tokens else "stop",
            top_logprobs=((TokenChoice(answer[0], self.words[answer[0]], self.logprob),),) * bool(n_probs),
        )

    @property
    def is_dead(self) -> bool:
        """Whether as many prompts were asked as the server survives."""
        return self.dies_after is not None and len(self.asked) >= self.dies_after

    def _answer(self, tokens: tuple[int, ...]) -> str:
        if self.answer is not None:
            return self.answer
        text = self.detokenize(tokens)
        if self.thinks == "always" or (self.thinks and "</think>" not in text):
            return "<think>" * (self.thinks != "begins") + "Let me see.</think>" + self._recall(text, tokens)
        return self._recall(text, tokens)

    def _recall(self, text: str, tokens: tuple[int, ...]) -> str:
        if self.babbles:
            return " the old road led down to the sea." * 20
        seen = self.detokenize(tokens[-self.window :]) if self.window else text
        needles = dict(re.findall(r"One of the special magic numbers for (\w+) is: (\d+)\.", seen))
        if self.lists_all:
            return " " + ", ".join(needles.values())
        key = _OPENING.search(text) or re.search(r"magic number for (\w+)\?", text)
        return f" {needles.get(key[1], 'lost') if key else 'what'}."

    def _id(self, word: str) -> int:
        if word not in self.ids:
            self.ids[word] = len(self.words)
            self.words.append(word)
        return self.ids[word]


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    pairs = zip(first, second, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
