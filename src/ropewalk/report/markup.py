"""HTML and SVG elements; a plain string is escaped wherever it goes, so only an element can be one."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

Attribute = str | int | float | None


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: Attribute) -> Markup:
    """``element("p", "a & b", class_="note")``; an attribute of None is left out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def join(parts: Sequence[str]) -> Markup:
    """Elements and text one after the other."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part, quote=False) for part in parts))


def _number(value: str | int | float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
