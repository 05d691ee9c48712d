"""Records that show as pages: printed, in a rich console, and in a notebook."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType


class Paged:
    """Has a record show as the page that the command line prints of it.

    The pages are found by name and only then, so that the parts that make records know of none.
    """

    __slots__ = ()

    def __rich__(self) -> RenderableType:
        page = import_module("ropewalk.report.notebook").page_of(self)
        shown: RenderableType = import_module("ropewalk.report.terminal").Shown(page)
        return shown

    def __str__(self) -> str:
        text: str = import_module("ropewalk.report.notebook").record_text(self)
        return text

    def _repr_html_(self) -> str:
        html: str = import_module("ropewalk.report.notebook").record_html(self)
        return html
