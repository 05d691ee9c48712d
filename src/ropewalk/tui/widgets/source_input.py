"""Where a path or a Hub id is typed; tab takes what is proposed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.suggester import Suggester
from textual.widgets import Input

Complete = Callable[[str], str | None]


class _Completion(Suggester):
    """Asks elsewhere, and not while keys wait: a folder may lie on a slow disk."""

    def __init__(self, complete: Complete) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._complete = complete

    async def get_suggestion(self, value: str) -> str | None:
        """The whole of what ``value`` may become."""
        return await asyncio.to_thread(self._complete, value)


class SourceInput(Input):
    """An input with completion."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "take", "complete"),
        Binding("escape", "screen.leave_line", "to the lists"),
    ]

    def __init__(self, complete: Complete, *, id: str) -> None:
        super().__init__(
            placeholder="a folder, a file, or a Hub id such as Qwen/Qwen3-8B",
            suggester=_Completion(complete),
            id=id,
            compact=True,
        )

    def action_take(self) -> None:
        """Take the proposal; without one go on to the next part of the screen."""
        if self._suggestion and self._suggestion != self.value:
            self.action_cursor_right()
        else:
            self.screen.focus_next()
