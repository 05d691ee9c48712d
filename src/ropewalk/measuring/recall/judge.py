"""What came of a question: one outcome, decided by what the server counted first and by the answer last.

A server that evaluated another prompt than the one sent has not been asked the question: ``invalid``
says so, a miss would not.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ropewalk.measuring.recall.prompt import Prompt
from ropewalk.measuring.recall.reasoning import after_reasoning
from ropewalk.measuring.recall.tasks import Task
from ropewalk.measuring.records import Outcome
from ropewalk.serving.client import Completion

_GROUPED = re.compile(r"(?<!\d)\d{1,3}(?:[,'’\u202f]\d{3})+(?!\d)")  # thousands separators
_DECLINES = re.compile(
    r"\b(?:i(?:['’]m| am) (?:sorry|unable to|not able to)|i apologi[sz]e|i can(?:not|['’]t)|i won['’]t|"
    r"as an ai\b|unable to (?:answer|assist|help|provide))",
    re.IGNORECASE,
)
_MARKDOWN = re.compile(r"[*_`~]+")


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome, why, and how many of the expected values stood in the answer."""

    outcome: Outcome
    detail: str | None = None
    found: int | None = None


def judge(
    completion: Completion, prompt: Prompt, *, task: Task, max_tokens: int, context_len: int, opened: bool
) -> Verdict:
    """The outcome of an answer; ``opened`` says that the prompt had begun the answer itself.

    An answer that ran out of tokens may have been cut. After an opening ("The magic number for X is") the
    value comes next or not at all: there only an answer that stops inside the value, or before its own
    budget, was cut. A free answer may still have been on its way.
    """
    fault = _fault(completion, planned=len(prompt.tokens), context_len=context_len)
    if fault is not None:
        return fault
    answer = after_reasoning(completion.text)
    if answer is None:
        return Verdict("lost_to_reasoning", "the budget ended inside the reasoning")
    expected = prompt.question.expected
    if task.is_json:
        return score_json(answer, expected[0], others=prompt.others)
    verdict = score(answer, expected, others=prompt.others, exact=task.exact)
    if completion.finish != "length":
        return verdict
    if verdict.outcome == "hit" and (begun := _begun(answer, prompt.others)):
        return Verdict("wrong_needle", f"the answer goes on to {begun}", verdict.found)
    ended_early = not opened or len(completion.tokens) < max_tokens
    if verdict.outcome == "miss" and (ended_early or _begun(answer, expected)):
        return Verdict("truncated", f"the answer ends after {len(completion.tokens)} tokens", verdict.found)
    return verdict


def score(
    answer: str, expected: Sequence[str], *, others: Iterable[str] = (), exact: bool = False
) -> Verdict:
    """Hit only if every expected value stands in the answer and no other candidate does.

    Values are compared by normalised, token-bounded containment: wording, case, markdown and thousands
    separators do not matter, ``36771`` is not ``3677``. A number as long as an expected one is a
    candidate even if no needle carries it: who names two has not recalled one. An answer without any that
    says it will not be given is ``declined``. ``exact`` compares character by character.
    """
    text = answer if exact else normalise(answer)
    found = sum(_holds(text, value, exact=exact) for value in expected)
    wrong = next((value for value in others if _holds(text, value, exact=exact)), None)
    if wrong is not None:
        return Verdict("wrong_needle", f"the answer gives {wrong}", found)
    if found == 0 and _DECLINES.search(answer) and not _stray(text, expected):
        return Verdict("declined", "the model declines to answer", found)
    if found < len(expected):
        said = f"{found} of {len(expected)} values" if found else None
        return Verdict("miss", said if answer.strip() else "the answer is empty", found)
    if not exact and (stray := _stray(text, expected)):
        return Verdict("miss", f"the answer also gives {stray}", found)
    return Verdict("hit", None, found)


def score_json(answer: str, expected: str, *, others: Iterable[str] = ()) -> Verdict:
    """Hit only if the whole answer is one JSON value, equal to the expected one; spaces do not matter."""
    wanted = json.loads(expected)
    try:
        given = json.loads(answer)
    except ValueError:
        found = int(re.sub(r"\s", "", expected) in re.sub(r"\s", "", answer))
        beside = "the right JSON with something beside it" if found else "the answer is not one JSON value"
        return Verdict("miss", beside if answer.strip() else "the answer is empty", found)
    if given == wanted:
        return Verdict("hit", None, 1)
    if any(given == json.loads(other) for other in others):
        return Verdict("wrong_needle", f"the answer gives {answer.strip()}", 0)
    return Verdict("miss", f"other JSON than asked for: {answer.strip()[:200]}", 0)


def normalise(text: str) -> str:
    """Lower case, without markdown and thousands separators."""
    plain = _MARKDOWN.sub("", unicodedata.normalize("NFKC", text)).casefold()
    return _GROUPED.sub(lambda match: re.sub(r"\D", "", match[0]), plain)


def _fault(completion: Completion, *, planned: int, context_len: int) -> Verdict | None:
    """A verdict where the server did not evaluate what was sent, or dropped it while answering."""
    counted = completion.prompt_tokens
    if counted is None:
        return Verdict("invalid", "the server did not say how many tokens it evaluated")
    if counted != planned:
        return Verdict("invalid", f"the server evaluated {counted} tokens of {planned}")
    if completion.truncated and planned + len(completion.tokens) > context_len:
        return Verdict("invalid", "the server shifted its context during the answer")
    if completion.truncated:
        return Verdict("truncated", "the context was full before the answer ended")
    return None


def _begun(answer: str, values: Iterable[str]) -> str | None:
    """The value in the middle of which the answer ends; two characters are no beginning."""
    tail = answer.rstrip()
    return next(
        (value for value in values if any(tail.endswith(value[:n]) for n in range(3, len(value)))), None
    )


def _holds(text: str, value: str, *, exact: bool) -> bool:
    if exact:
        return value in text
    return re.search(rf"(?<![^\W_]){re.escape(normalise(value))}(?![^\W_]|[.,]\d)", text) is not None


def _stray(text: str, expected: Sequence[str]) -> str | None:
    """A number of the same length as an expected one that is none of them."""
    lengths = {len(value) for value in expected if value.isdecimal()}
    numbers = re.findall(r"(?<!\d)\d+(?!\d)", text)
    return next((number for number in numbers if len(number) in lengths and number not in expected), None)
