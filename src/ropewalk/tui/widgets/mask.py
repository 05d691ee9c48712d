"""The mask of attention as a picture: which query sees which key, and how many cells that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.content import Content
from textual.widget import Widget

from ropewalk.tui.state import Masks
from ropewalk.tui.themes import stylesheet

_ROWS = 6  # lines of a picture, two cells high each
_HALVES = {(True, True): "█", (True, False): "▀", (False, True): "▄", (False, False): " "}
_CELLS = 2 * _ROWS
_GAP = "  "


class MaskPicture(Widget):
    """Up to three pictures side by side."""

    DEFAULT_CSS = stylesheet(__file__)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._masks: Masks | None = None

    def show(self, masks: Masks | None) -> None:
        """Draw the masks; nothing for a model without attention."""
        self._masks = masks
        self.refresh(layout=True)

    def render(self) -> Content:
        """The pictures, their names and counts."""
        return Content("") if self._masks is None else pictures(self._masks, self.size.width)


def pictures(masks: Masks, width: int) -> Content:
    """Names, pictures, counts: as many columns as there are masks and room."""
    pad = round(masks.padding / masks.tokens * _CELLS)
    columns = [("causal", masks.causal, _drawn(lambda query, key: key <= query))]
    if masks.window is not None and masks.windowed is not None and masks.window < masks.tokens:
        near = max(1, round(masks.window / masks.tokens * _CELLS))
        live = _drawn(lambda query, key: query - near < key <= query)
        columns.append((f"window {masks.window:,}", masks.windowed, live))
    padded = _drawn(lambda query, key: pad <= key <= query)
    columns.append((f"{masks.padding / masks.tokens:.0%} padding", masks.padded, padded))
    each = max(_CELLS, *(len(f"{count:,}") for _, count, _ in columns))
    return _beside(columns[: max(1, (width + len(_GAP)) // (each + len(_GAP)))], masks.tokens, each)


def _drawn(is_live: Callable[[int, int], bool]) -> Sequence[str]:
    """Queries downwards, keys to the right; a character is two queries high."""
    return [
        "".join(_HALVES[is_live(row, key), is_live(row + 1, key)] for key in range(_CELLS))
        for row in range(0, _CELLS, 2)
    ]


def _beside(columns: Sequence[tuple[str, int, Sequence[str]]], tokens: int, width: int) -> Content:
    styles = ("$blue", "$orange", "$green")
    lines = [Content.styled(_GAP.join(f"{name:{width}}" for name, _, _ in columns), "bold")]
    between = Content(" " * (width - _CELLS) + _GAP)
    for row in range(_ROWS):
        drawn = (
            Content.styled(picture[row], f"{style} on $panel")
            for (_, _, picture), style in zip(columns, styles, strict=False)
        )
        lines.append(between.join(drawn))
    lines.append(Content.styled(_GAP.join(f"{f'{count:,}':{width}}" for _, count, _ in columns), "bold"))
    shares = _GAP.join(f"{f'{count / tokens**2:.1%} of all':{width}}" for _, count, _ in columns)
    lines.append(Content.styled(shares, "$grey"))
    return Content("\n").join(lines)
