"""What to open: recent checkpoints, a folder, the Hub's cache, or what is typed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, HorizontalGroup, Vertical
from textual.content import Content
from textual.widgets import Input, Label, Static

from ropewalk.errors import RopewalkError
from ropewalk.tui.places import OpenEntry
from ropewalk.tui.screens.base import RecordScreen
from ropewalk.tui.state import AppState
from ropewalk.tui.text import clean, shown
from ropewalk.tui.widgets.panel import Panel
from ropewalk.tui.widgets.record_list import RecordList
from ropewalk.tui.widgets.source_input import SourceInput
from ropewalk.units import format_bytes

_FOLDER = 40  # characters of a folder that are shown


class OpenScreen(RecordScreen):
    """A line to type on, and three lists."""

    PLACE = "open"
    CSS_PATH = "open.tcss"
    AUTO_FOCUS = "#recent"
    HELP = (
        "/ goes to the line to type a path or a Hub id on, esc back to the lists; tab completes. In the "
        "lists, enter opens a checkpoint (◆) and goes into a folder. Nothing but headers is read."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash,i", "type", "type a path or Hub id", key_display="/"),
        Binding("backspace", "parent", "parent folder"),
        Binding("right", "into", "into the folder", show=False),
        Binding("f5", "look", "look again", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._folder = os.getcwd()
        self._known: tuple[str, ...] = ()

    def compose_body(self) -> ComposeResult:
        """The line, why the last one could not be read, and the lists."""
        with HorizontalGroup(id="typed"):
            yield Label("open ")
            yield SourceInput(self._complete, id="source")
        yield Static(id="failure")
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield Panel("Recent", RecordList(id="recent", start_on_first=True), id="recent-panel")
                yield Panel("Hub cache", RecordList(id="cached"), id="cached-panel")
            yield Panel("Folder", RecordList(id="entries"), id="folder-panel")

    def on_screen_resume(self) -> None:
        """Look at what there is whenever the screen is entered."""
        self.action_look()

    def show(self, desk: AppState) -> None:
        """Say why something could not be read."""
        failure = self.ropewalk.failure
        words = self.query_one("#failure", Static)
        words.display = failure is not None
        if failure is not None:
            words.update(failure_page(*failure))
            field = self.query_one("#source", Input)
            if field.value != failure[0]:
                field.value = failure[0]
                self.set_focus(field)

    def on_mount(self) -> None:
        """The lists have the keyboard until there is nothing in them."""
        self._is_first_look = True

    @work(thread=True, exclusive=True, group="places")
    def action_look(self) -> None:
        """Look at all places again."""
        backend = self.ropewalk.backend
        recent, cached = backend.recent(), backend.cached()
        self.app.call_from_thread(self._show_known, recent, cached)
        self._list(self._folder)

    def _show_known(self, recent: tuple[str, ...], cached: tuple[OpenEntry, ...]) -> None:
        self._known = (*recent, *(entry.source for entry in cached))
        self.query_one("#recent", RecordList).show(
            (OpenEntry(source, source, "checkpoint"), recent_line(source)) for source in recent
        )
        self.query_one("#cached", RecordList).show((entry, entry_line(entry)) for entry in cached)
        self._take_keyboard(bool(recent))
        panel = self.query_one("#cached-panel")
        total = sum(entry.bytes or 0 for entry in cached)
        panel.border_subtitle = f"{format_bytes(total)} in {len(cached)}" if cached else "empty"

    def _take_keyboard(self, has_recent: bool) -> None:
        """At the first look: the recent checkpoints, or the line to type on where there are none. What
        somebody has begun to type, or gone to, stays."""
        field = self.query_one("#source", Input)
        if self._is_first_look and not field.value and self.focused in (None, self.query_one("#recent")):
            self.set_focus(self.query_one("#recent") if has_recent else field)
        self._is_first_look = False

    def on_key(self, event: events.Key) -> None:
        """What no key of the screen is begins a path or an id."""
        if event.character is None or event.character not in ".~" or isinstance(self.focused, Input):
            return
        event.stop()
        event.prevent_default()
        field = self.query_one("#source", Input)
        self.set_focus(field)
        field.insert_text_at_cursor(event.character)

    def action_leave_line(self) -> None:
        """Back to the lists, to the first that has entries."""
        for name in ("recent", "entries"):
            listed = self.query_one(f"#{name}", RecordList)
            if listed.records:
                self.set_focus(listed)
                return
        self.focus_next()

    def _list(self, folder: str) -> None:
        """In a worker: what a folder holds."""
        try:
            entries = self.ropewalk.backend.folder(folder)
        except OSError as error:
            self.app.call_from_thread(self.notify, f"{folder}: {error.strerror or error}", severity="error")
        else:
            self.app.call_from_thread(self._show_folder, folder, entries)

    def _show_folder(self, folder: str, entries: tuple[OpenEntry, ...]) -> None:
        self._folder = folder
        self.query_one("#folder-panel").border_title = Content(clean(folder))
        self.query_one("#entries", RecordList).show((entry, entry_line(entry)) for entry in entries)

    @work(thread=True, exclusive=True, group="folder")
    def _go_to(self, folder: str) -> None:
        self._list(folder)

    @on(Input.Submitted, "#source")
    def _typed(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.ropewalk.read(event.value.strip())

    @on(RecordList.Chosen)
    def _chosen(self, event: RecordList.Chosen) -> None:
        entry: OpenEntry = event.record
        if entry.kind == "folder":
            self._go_to(entry.source)
        else:
            self.ropewalk.read(entry.source)

    def action_type(self) -> None:
        """Type a path or a Hub id."""
        self.set_focus(self.query_one("#source"))

    def action_parent(self) -> None:
        self._go_to(os.path.dirname(self._folder))

    def action_into(self) -> None:
        """Into the folder under the cursor, a checkpoint or not."""
        entries = self.query_one("#entries", RecordList)
        entry: OpenEntry | None = entries.record()
        if entries.has_focus and entry is not None and os.path.isdir(entry.source):
            self._go_to(entry.source)

    def _complete(self, typed: str) -> str | None:
        return self.ropewalk.backend.complete(typed, self._known)


def entry_line(entry: OpenEntry) -> Content:
    """``◆ Qwen3-8B  15.26 GiB`` or ``▸ models``."""
    mark, style = ("◆", "$primary") if entry.kind == "checkpoint" else ("▸", "$grey")
    size = "" if entry.bytes is None else f"  {format_bytes(entry.bytes)}"
    return Content.assemble((mark, style), f" {clean(entry.name)}", (size, "$grey"))


def recent_line(source: str) -> Content:
    """``◆ Qwen3-8B  …/models``: the name first, a long folder by its end."""
    folder, _, name = source.rstrip("/").rpartition("/")
    where = folder if len(folder) <= _FOLDER else f"…{folder[1 - _FOLDER :]}"
    return Content.assemble(("◆", "$primary"), f" {clean(name or source)}", (f"  {clean(where)}", "$grey"))


def failure_page(source: str, error: RopewalkError | OSError) -> Content:
    """Why a checkpoint could not be read, with the places that the error names."""
    code = error.code if isinstance(error, RopewalkError) else type(error).__name__
    lines = [Content.assemble(("✗ ", "bold $error"), (code, "bold"), f"  {clean(str(error))}")]
    lines += [
        Content.assemble((f"  {name}  ", "$primary"), clean(shown(value)))
        for name, value in _named(source, error)
    ]
    return Content("\n").join(lines)


def _named(source: str, error: RopewalkError | OSError) -> Iterator[tuple[str, Any]]:
    where = error.where if isinstance(error, RopewalkError) else {}
    if "file" not in where:
        yield "asked", source
    yield from where.items()


SCREEN = OpenScreen
