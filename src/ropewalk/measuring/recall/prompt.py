"""Prompts of exactly the planned number of tokens, built by the server's own tokenizer.

A prompt is head + text with needles + fill + question + opening of the answer. Everything up to the
fill is the same for all questions of one haystack, so that the server evaluates it once.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import inf

from ropewalk.errors import UsageError
from ropewalk.measuring.recall.haystack import sentences
from ropewalk.measuring.recall.tasks import Draft, Question, Task
from ropewalk.measuring.recall.vocabulary import Frame, Vocabulary
from ropewalk.measuring.recall.words import FILLERS, SeededRandom

FILL_TOKENS = 24  # least room for the fill: short sentences add up to every count from here on
_CHAT_ORDER = " Answer with nothing but what was asked for."


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question as token ids; ``others`` are values of the same haystack that would be wrong.

    ``needle_at`` is the token at which the needle starts, None where there is none; ``shared_len`` how many
    tokens all questions of the haystack begin with.
    """

    tokens: tuple[int, ...]
    sha256: str
    question: Question
    others: tuple[str, ...]
    needle_at: int | None
    shared_len: int = 0


def longest_prompt(context_len: int, *, answer_tokens: int, thinking_tokens: int = 0) -> int:
    """The longest prompt that leaves room for the answer, with one token of margin."""
    return context_len - answer_tokens - thinking_tokens - 1


@dataclass(frozen=True, slots=True)
class Builder:
    """Makes the prompts of a task at a length: the same ones on every server with this tokenizer."""

    vocabulary: Vocabulary
    frame: Frame
    haystack: str = "prose"

    def prompts(self, task: Task, *, length: int, depths: Sequence[float], seed: int) -> list[Prompt]:
        """One prompt per depth, each of exactly ``length`` tokens.

        Raises :class:`UsageError` where the length has no room for the needles, or the user's text is
        too short for it or tells a value on its own.
        """
        draft = task.draft(SeededRandom(seed, task.name, length), depths)
        head = self.vocabulary.start(self.frame.before + draft.intro)
        tails = [self._tail(question) for question in draft.questions]
        needles = [self.vocabulary.sentence(needle.text) for needle in draft.needles]
        end = length - FILL_TOKENS - max(map(len, tails))
        room = end - len(head) - sum(map(len, needles))
        if room < 0:
            raise _too_short(length, least=length - room, needles=len(needles))
        text = self._text(draft, room=room, seed=seed)
        positions = [needle.depth * length for needle in draft.needles]
        body, places = _weave(text, list(zip(positions, needles, strict=True)), start=len(head))
        shared = head + body
        return [
            self._prompt(draft, question, shared=shared, tail=tail, length=length, places=places)
            for question, tail in zip(draft.questions, tails, strict=True)
        ]

    def _tail(self, question: Question) -> list[int]:
        if self.frame.form == "chat":
            return self.vocabulary.end(f"\n\n{question.text}{_CHAT_ORDER}{self.frame.after}")
        gap = "\n" if self.frame.form == "completion" else ""
        return self.vocabulary.end(f"\n\n{question.text}{self.frame.after}{gap}{question.opening}")

    def _text(self, draft: Draft, *, room: int, seed: int) -> list[list[int]]:
        """Sentences of the haystack, as tokens, up to the first that has no room."""
        source = cycle(draft.lines) if draft.lines else sentences(self.haystack, seed=seed)
        chosen: list[list[int]] = []
        for sentence in source:
            tokens = self.vocabulary.sentence(sentence)
            if len(tokens) > room:
                return chosen
            self._guard(sentence, draft)
            room -= len(tokens)
            chosen.append(tokens)
        raise UsageError(
            f"the text {self.haystack} ends {room} tokens too early for this length",
            where={"file": self.haystack, "missing_tokens": room},
        )

    def _guard(self, sentence: str, draft: Draft) -> None:
        """No value may be had from the haystack itself."""
        told = None if draft.lines else next((value for value in draft.values if value in sentence), None)
        if told is not None:
            raise UsageError(
                f"the text {self.haystack} contains the value {told}; choose another seed",
                where={"file": self.haystack, "value": told},
            )

    def _prompt(
        self,
        draft: Draft,
        question: Question,
        *,
        shared: list[int],
        tail: list[int],
        length: int,
        places: list[int],
    ) -> Prompt:
        tokens = (*shared, *self._fill(length - len(shared) - len(tail)), *tail)
        others = tuple(value for value in draft.values if value not in question.expected)
        place = None if question.needle is None else places[question.needle]
        return Prompt(tokens, _sha256(tokens), question, others, place, len(shared))

    def _fill(self, count: int) -> list[int]:
        """Different short sentences of ``count`` tokens in all, as few as do."""
        sums: dict[int, list[list[int]]] = {0: []}
        for tokens in map(self.vocabulary.sentence, FILLERS):
            for total, chosen in list(sums.items()):
                longer = total + len(tokens)
                if longer not in sums or len(chosen) + 1 < len(sums[longer]):
                    sums[longer] = [*chosen, tokens]
        if count not in sums:
            raise UsageError(
                f"the short sentences that fill a prompt do not add up to {count} tokens in this vocabulary",
                where={"missing_tokens": count},
            )
        return [token for tokens in sums[count] for token in tokens]


def _weave(
    text: Iterable[list[int]], needles: Sequence[tuple[float, list[int]]], *, start: int
) -> tuple[list[int], list[int]]:
    """Sentences with each needle at the boundary nearest to its position, and where each begins."""
    waiting = deque(sorted(range(len(needles)), key=lambda index: needles[index][0]))
    body: list[int] = []
    places = [0] * len(needles)
    for sentence in (*text, []):  # the empty one takes the needles that are left
        reach = start + len(body) + len(sentence) / 2 if sentence else inf
        while waiting and needles[waiting[0]][0] <= reach:
            index = waiting.popleft()
            places[index] = start + len(body)
            body += needles[index][1]
            reach = start + len(body) + len(sentence) / 2 if sentence else inf
        body += sentence
    return body, places


def _too_short(length: int, *, least: int, needles: int) -> UsageError:
    return UsageError(
        f"a prompt of {length} tokens has no room for {needles} needles and a question; {least} are needed",
        where={"length": length, "least": least},
    )


def _sha256(tokens: Sequence[int]) -> str:
    return hashlib.sha256(",".join(map(str, tokens)).encode()).hexdigest()
