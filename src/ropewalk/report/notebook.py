"""Records as HTML in a notebook: the pages of the terminal, with every text in them escaped.

Jupyter and its like ask an object for ``_repr_html_``. Records get theirs from here, when ropewalk's public
names are first used, so that the parts that make them know of no page and nothing is imported for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

_WIDTH = 100
# The notebook's own colours, so that a page reads on dark and on light.
_FORMAT = '<pre style="line-height: 1.3; overflow-x: auto">{code}</pre>'


def show(record: type[Any]) -> None:
    """Have the objects of a class show as their page: one of those named in :data:`PAGES`."""
    record._repr_html_ = record_html


def record_html(record: Any) -> str:
    """The page of a record as one element."""
    from io import StringIO

    from rich.console import Console

    console = Console(file=StringIO(), record=True, width=_WIDTH, highlight=False, markup=False, emoji=False)
    console.print(PAGES[type(record).__name__](record), crop=False)
    return console.export_html(inline_styles=True, code_format=_FORMAT)


def _inspection(record: Any) -> RenderableType:
    from ropewalk.planner.cache_summary import cache_summary
    from ropewalk.report.inspection import inspection_page

    return inspection_page(record, kept=cache_summary(record))


def _plan(record: Any) -> RenderableType:
    from ropewalk.report.plan import plan_page

    return plan_page(record)


def _check(record: Any) -> RenderableType:
    from ropewalk.report.check import check_page

    return check_page(record)


def _measurement(record: Any) -> RenderableType:
    from ropewalk.report.measurement import measurement_page

    return measurement_page(record)


def _attention(record: Any) -> RenderableType:
    from ropewalk.report.attention import attention_page

    return attention_page(record)


PAGES: dict[str, Callable[[Any], RenderableType]] = {
    "Inspection": _inspection,
    "Plan": _plan,
    "CheckResult": _check,
    "Measurement": _measurement,
    "Attention": _attention,
}
