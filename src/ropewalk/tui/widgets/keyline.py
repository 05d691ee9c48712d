"""The last line of every screen: the keys that work here, by what has the focus."""

from __future__ import annotations

from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget

from ropewalk.tui.themes import stylesheet


class KeyLine(Widget):
    """One line of ``key what`` pairs, which may be clicked too. Textual's own footer makes a widget of each
    key whenever the focus moves, which takes longer than a key press should."""

    DEFAULT_CSS = stylesheet(__file__)
    ALLOW_SELECT = False

    def on_mount(self) -> None:
        """Follow the bindings of what has the focus."""
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_updated)

    def render(self) -> Content:
        """Keys of the screen first, those of the application last."""
        pairs = []
        seen: set[str] = set()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if not binding.show or not active.enabled or binding.action in seen:
                continue
            seen.add(binding.action)
            pairs.append(self._pair(self.app.get_key_display(binding), binding.description, binding.key))
        return Content("  ").join(pairs)

    def _pair(self, key: str, words: str, simulated: str) -> Content:
        label = Content.assemble((key, "bold $primary"), f" {words}")
        return label.stylize(f"@click=app.simulate_key('{simulated}')")

    def _bindings_updated(self, screen: Screen[object]) -> None:
        self.refresh()
