"""What the KV cache would cost with another number of KV heads."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from ropewalk.planner.records import PlanRequest
from ropewalk.report.figures import bar
from ropewalk.tui.state import Opened
from ropewalk.tui.work import Backend, HeadsRow
from ropewalk.units import format_bytes, format_tokens

_BAR = 24


class WhatIfSheet(ModalScreen[None]):
    """One line for every number of KV heads that divides the query heads."""

    CSS_PATH = "modal.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q,w", "app.pop_screen", "close")]

    def __init__(self, opened: Opened, request: PlanRequest, *, backend: Backend) -> None:
        super().__init__()
        self._opened, self._request, self._doing = opened, request, backend

    def compose(self) -> ComposeResult:
        """A page that is filled by a worker."""
        with VerticalScroll(id="sheet") as frame:
            frame.border_title = "KV heads, what if"
            frame.border_subtitle = "esc close"
            yield Static("planning …", id="page")

    def on_mount(self) -> None:
        self._plan()

    @work(thread=True, exclusive=True)
    def _plan(self) -> None:
        rows = self._doing.what_if_heads(self._opened, self._request)
        self.app.call_from_thread(self._show, rows)

    def _show(self, rows: tuple[HeadsRow, ...]) -> None:
        self.query_one("#page", Static).update(heads_page(rows, self._request.context_len))


def heads_page(rows: tuple[HeadsRow, ...], context_len: int) -> Content:
    """Heads, bytes per token, and the cache of one context, with bars to compare."""
    if not rows:
        return Content("No layer of this model keeps keys and values per head.")
    largest = max(row.context_bytes for row in rows)
    lines = [Content(f"{'KV heads':>9} {'B per token':>12} {format_tokens(context_len) + ' tokens':>18}")]
    for row in rows:
        style = "bold $orange" if row.is_actual else "$blue"
        figures = (
            f"{row.num_key_value_heads:>9} {row.bytes_per_token:>12,} {format_bytes(row.context_bytes):>18} "
        )
        name = "  this model" if row.is_actual else "  MQA" if row.num_key_value_heads == 1 else ""
        lines.append(
            Content.assemble(
                (figures, "bold" if row.is_actual else ""),
                (bar(row.context_bytes / largest, _BAR), style),
                (name, "bold" if row.is_actual else "dim"),
            )
        )
    lines.append(Content("\nThe cache alone: other heads would need other weights, and another training."))
    return Content("\n").join(lines)
