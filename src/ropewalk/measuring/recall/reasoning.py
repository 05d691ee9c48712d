"""Reasoning in prompts and answers: where it begins and ends, and what follows it."""

from __future__ import annotations

import re

# <think> (Qwen, DeepSeek), <thinking>, <seed:think> (Seed-OSS), [THINK] (Mistral)
_NAME = r"(?:\w+:)?think(?:ing)?"
_BEGINS = re.compile(rf"<({_NAME})>|\[(THINK)\]", re.IGNORECASE)
_ENDS = re.compile(rf"</{_NAME}>|\[/THINK\]", re.IGNORECASE)


def open_reasoning(text: str) -> str | None:
    """The tag that would end the reasoning in which a text breaks off; None where it is in none."""
    last = _ENDS.split(text)[-1]
    begun = _BEGINS.search(last)
    return begun and (f"</{begun[1]}>" if begun[1] else f"[/{begun[2]}]")


def has_reasoning(text: str) -> bool:
    """Whether an answer contains reasoning, or the end of some that its prompt had begun."""
    return bool(_BEGINS.search(text) or _ENDS.search(text))


def after_reasoning(text: str, *, reasoning: str = "") -> str | None:
    """The answer proper: what follows the last closing tag; None where reasoning was not finished.

    ``reasoning`` is what a server returns apart from the answer; with nothing beside it there is none.
    """
    answer = _ENDS.split(text)[-1]
    if _BEGINS.search(answer) or (reasoning and not answer.strip()):
        return None
    return answer
