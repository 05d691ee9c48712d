"""One of a few, each with a key, over whatever is shown."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from ropewalk.tui.widgets.record_list import RecordList


class ChooseSheet(ModalScreen[str | None]):
    """Answers the name that was chosen, None after escape. ``options`` are key, name and words."""

    CSS_PATH = "ask.tcss"

    def __init__(self, question: str, options: Sequence[tuple[str, str, str]]) -> None:
        super().__init__()
        self._question, self._options = question, options

    def compose(self) -> ComposeResult:
        """The options as a list."""
        with Vertical(id="sheet") as frame:
            frame.border_title = self._question
            yield RecordList(id="options")

    def on_mount(self) -> None:
        """Fill the list."""
        self.query_one(RecordList).show(
            (name, Content.assemble((f"{key}  ", "bold $primary"), words))
            for key, name, words in self._options
        )

    def on_key(self, event: events.Key) -> None:
        """A key of an option chooses it."""
        chosen = next((name for key, name, _ in self._options if key == event.key), None)
        if chosen is not None or event.key == "escape":
            event.stop()
            self.dismiss(chosen)

    def on_record_list_chosen(self, event: RecordList.Chosen) -> None:
        """So do enter and the mouse."""
        self.dismiss(event.record)
