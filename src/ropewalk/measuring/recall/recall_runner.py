"""Puts prompts to one server and writes down what came of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ropewalk.errors import EngineError
from ropewalk.measuring.recall.judge import Verdict, judge
from ropewalk.measuring.recall.prompt import Builder, Prompt
from ropewalk.measuring.recall.tasks import Task
from ropewalk.measuring.recall.vocabulary import Tokenizing
from ropewalk.measuring.records import Trial
from ropewalk.serving.client import Completion, PromptTooLongError


class Answering(Tokenizing, Protocol):
    """The part of :class:`ropewalk.serving.client.ServerClient` that is examined."""

    def complete(
        self,
        prompt_tokens: Sequence[int],
        *,
        max_tokens: int,
        cache_prompt: bool,
        stop: Sequence[str] = (),
        n_probs: int = 0,
    ) -> Completion: ...


@dataclass(frozen=True, slots=True)
class RecallRunner:
    """One arm's server under examination.

    ``identity`` is what decides an answer beside the prompt: weights, engine, rope, cache types, context.
    """

    arm: str
    client: Answering
    builder: Builder
    context_len: int
    identity: Mapping[str, Any]

    def key(self, task: Task, *, length: int, depth: float, seed: int) -> str:
        """Names a trial: the same key is the same question to the same server."""
        asked = {
            **self.identity,
            "template": self.builder.frame.sha256,
            "haystack": self.builder.haystack,
            "task": task.name,
            "length": length,
            "depth": depth,
            "seed": seed,
        }
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def ask(self, prompt: Prompt, *, task: Task, seed: int, max_tokens: int, fresh: bool) -> Trial:
        """One question; ``fresh`` evaluates the whole prompt, so that it can be timed.

        A refusal is an outcome, and so is any other answer that is none; whether the server has died is
        for the caller to ask.
        """
        try:
            completion = self.client.complete(
                prompt.tokens,
                max_tokens=max_tokens,
                cache_prompt=not fresh,
                stop=self._stop(task),
                n_probs=1,
            )
        except PromptTooLongError as refusal:
            return self._trial(prompt, Verdict("refused", str(refusal)), None, task=task, seed=seed)
        except EngineError as error:
            return self._trial(prompt, Verdict("error", str(error)), None, task=task, seed=seed)
        verdict = judge(
            completion,
            prompt,
            task=task,
            max_tokens=max_tokens,
            context_len=self.context_len,
            opened=self._opened,
        )
        return self._trial(prompt, verdict, completion, task=task, seed=seed)

    def skip(self, prompt: Prompt, *, task: Task, seed: int) -> Trial:
        """A question of a length that the server has refused already."""
        verdict = Verdict("refused", "not asked: the server had refused a prompt of this length")
        return self._trial(prompt, verdict, None, task=task, seed=seed)

    @property
    def _opened(self) -> bool:
        return self.builder.frame.form != "chat"

    def _stop(self, task: Task) -> tuple[str, ...]:
        """An opened answer is one line; a free one may take its time."""
        return ("\n",) if self._opened and task.has_depth else ()

    def _trial(
        self, prompt: Prompt, verdict: Verdict, completion: Completion | None, *, task: Task, seed: int
    ) -> Trial:
        question, length = prompt.question, len(prompt.tokens)
        return Trial(
            key=self.key(task, length=length, depth=question.depth, seed=seed),
            arm=self.arm,
            task=task.name,
            length=length,
            depth=question.depth,
            seed=seed,
            prompt_sha256=prompt.sha256,
            expected=question.expected,
            answer=completion.text if completion else "",
            outcome=verdict.outcome,
            reported_tokens=completion.prompt_tokens if completion else None,
            cached_tokens=completion.cached_tokens if completion else None,
            prefill_seconds=completion.prefill_seconds if completion else None,
            detail=verdict.detail,
            decode_tokens_per_second=completion.decode_tokens_per_second if completion else None,
            needle_at=prompt.needle_at,
            found=verdict.found,
            first_logprob=_first_logprob(completion),
        )


def _first_logprob(completion: Completion | None) -> float | None:
    rows = completion.top_logprobs if completion else ()
    return rows[0][0].logprob if rows and rows[0] else None
