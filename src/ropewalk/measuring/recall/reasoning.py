"""Thoughts in prompts and answers: where they begin and end, and what follows them."""

from __future__ import annotations

import re

# <think> (Qwen, DeepSeek), <thinking>, <seed:think> (Seed-OSS), [THINK] (Mistral)
_NAME = r"(?:\w+:)?think(?:ing)?"
_BEGINS = re.compile(rf"<({_NAME})>|\[(THINK)\]", re.IGNORECASE)
_ENDS = re.compile(rf"</{_NAME}>|\[/THINK\]", re.IGNORECASE)


def open_thought(text: str) -> str | None:
    """The tag that would end the thought in which a text breaks off; None where it is in none."""
    last = _ENDS.split(text)[-1]
    begun = _BEGINS.search(last)
    return begun and (f"</{begun[1]}>" if begun[1] else f"[/{begun[2]}]")


def has_thought(text: str) -> bool:
    """Whether an answer has a thought in it, or the end of one that its prompt had begun."""
    return bool(_BEGINS.search(text) or _ENDS.search(text))


def after_thinking(text: str, *, reasoning: str = "") -> str | None:
    """The answer proper: what follows the last closing tag; None where a thought was not finished.

    ``reasoning`` is what a server returns apart from the answer; with nothing beside it there is none.
    """
    answer = _ENDS.split(text)[-1]
    if _BEGINS.search(answer) or (reasoning and not answer.strip()):
        return None
    return answer
