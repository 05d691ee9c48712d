"""Records as the pages of the terminal: as text, and as HTML in a notebook, with every text in it escaped.

:class:`ropewalk.pages.Paged` has the records ask here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_WIDTH = 100
# The notebook's own colours, so that a page reads on dark and on light.
_FORMAT = '<pre style="line-height: 1.3; overflow-x: auto">{code}</pre>'


def page_of(record: Any) -> RenderableType:
    """The page of a record whose class is named in :data:`PAGES`."""
    return PAGES[type(record).__name__](record)


def record_html(record: Any) -> str:
    """The page as one element."""
    return _printed(record).export_html(inline_styles=True, code_format=_FORMAT)


def record_text(record: Any) -> str:
    """The page as plain text."""
    lines = _printed(record).export_text(styles=False).splitlines()
    return "\n".join(line.rstrip() for line in lines)


def _printed(record: Any) -> Console:
    from io import StringIO

    from rich.console import Console

    console = Console(file=StringIO(), record=True, width=_WIDTH, highlight=False, markup=False, emoji=False)
    console.print(page_of(record), crop=False)
    return console


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
