"""The few pieces of Markdown that the generated pages share."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any


def table(*heads: str, rows: Iterable[Sequence[str]]) -> str:
    """A table, with an empty line before and after it."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(["", *(f"| {' | '.join(map(_cell, line))} |" for line in lines), ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def code(words: Iterable[str]) -> str:
    """Words as code, with commas."""
    return ", ".join(f"`{word}`" for word in words)


def doc(thing: Any) -> str:
    """A docstring on one line, in Markdown's quotes instead of Sphinx's."""
    text = " ".join((inspect.getdoc(thing) or "").split())
    return re.sub(r":\w+:`~?([^`]+)`|``([^`]+)``", lambda match: f"`{match[1] or match[2]}`", text)
