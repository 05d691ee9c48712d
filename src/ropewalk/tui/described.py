"""Descriptions of pages as Textual shows them, laid out for the width that they get."""

from __future__ import annotations

from textual.content import Content
from textual.css.styles import RulesMap
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual

from ropewalk.report.lines import lay
from ropewalk.report.page import Block, Tone, Words
from ropewalk.tui.text import clean

STYLES: dict[Tone, str] = {
    "": "", "strong": "bold", "soft": "$grey", "good": "bold $success", "bad": "bold $error",
    "warn": "$warning", "info": "$primary", "bar": "$blue", "cache": "$orange", "other": "$yellow",
    "faint": "$grey",
}  # fmt: skip


class Described(Visual):
    """A description for a ``Static``."""

    def __init__(self, block: Block) -> None:
        self.block = block

    def content(self, width: int) -> Content:
        return Content("\n").join([_line(line) for line in lay(self.block, width)])

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_minimal_width(self, rules: RulesMap) -> int:
        return 1

    def get_height(self, rules: RulesMap, width: int) -> int:
        """The lines that it takes at a width."""
        return len(list(lay(self.block, width)))

    def render_strips(
        self, width: int, height: int | None, style: Style, options: RenderOptions
    ) -> list[Strip]:
        """The lines in the application's colours."""
        return self.content(width).render_strips(width, height, style, options)


def _line(line: Words) -> Content:
    return Content.assemble(*((clean(text), STYLES[tone]) for text, tone in line.runs))
