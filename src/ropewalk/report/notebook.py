"""Records as their pages where Python shows them: text for ``print``, HTML for a notebook.

:class:`ropewalk.pages.Paged` has the records ask here.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

from ropewalk.report.figures import printable

if TYPE_CHECKING:
    from ropewalk.inspector.records import Inspection
    from ropewalk.report.page import Block, Tone

_WIDTH = 100
# The notebook's own colours, so that a page reads on dark and on light.
_STYLES: dict[Tone, str] = {
    "strong": "font-weight: bold", "soft": "opacity: .6", "good": "color: #008000; font-weight: bold",
    "bad": "color: #c00000; font-weight: bold", "warn": "color: #b06000", "info": "color: #0060c0",
    "bar": "color: #008080", "cache": "color: #a000a0", "other": "color: #b06000", "faint": "opacity: .6",
}  # fmt: skip


def record_html(record: Any) -> str:
    """The page of a record as one element."""
    from ropewalk.report.lines import lay

    lines = ("".join(map(_run, line.runs)).rstrip() for line in lay(page_of(record), _WIDTH))
    text = "\n".join(lines)
    return f'<pre style="line-height: 1.3; overflow-x: auto">{text}</pre>'


def record_text(record: Any) -> str:
    """The page of a record as text."""
    from ropewalk.report.terminal import plain

    return plain(page_of(record), _WIDTH).rstrip()


def page_of(record: Any) -> Block:
    """The page of a record of one of the kinds in :data:`PAGES`."""
    return PAGES[type(record).__name__](record)


def _run(run: tuple[str, Tone]) -> str:
    text, tone = run
    shown = escape(printable(text), quote=False)
    return f'<span style="{_STYLES[tone]}">{shown}</span>' if tone else shown


def _inspection(record: Inspection) -> Block:
    from ropewalk.planner.cache_summary import cache_summary
    from ropewalk.report.inspection import inspection_page

    return inspection_page(record, kept=cache_summary(record))


def _from(module: str, function: str) -> Callable[[Any], Block]:
    def page(record: Any) -> Block:
        from importlib import import_module

        made: Block = getattr(import_module(f"ropewalk.report.{module}"), function)(record)
        return made

    return page


PAGES: dict[str, Callable[[Any], Block]] = {
    "Inspection": _inspection,
    "Plan": _from("plan", "plan_page"),
    "Choice": _from("choose", "choice_page"),
    "CheckResult": _from("check", "check_page"),
    "Measurement": _from("measurement", "measurement_page"),
    "Attention": _from("attention", "attention_page"),
}
