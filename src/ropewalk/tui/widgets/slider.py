"""A logarithmic slider: for lengths from a thousand tokens to millions, for factors from 1 to 64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import log2
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from ropewalk.planner.records import Plan
from ropewalk.tui.themes import stylesheet
from ropewalk.units import MIB, format_tokens, format_tokens_short

_STEPS = 8  # to double the value
_END_WIDTH = 6  # ``1024k`` and a gap, on either side


@dataclass(frozen=True, slots=True)
class Mark:
    """A place on the slider: a symbol on the track, its name below."""

    value: float
    symbol: str
    name: str


@dataclass(frozen=True, slots=True)
class Scale:
    """What a slider counts: ``grain`` is the step between values that people write, at a value."""

    grain: Callable[[float], float]
    write: Callable[[float], str]

    def snap(self, value: float) -> float:
        """The nearest value that people write."""
        grain = self.grain(value)
        return max(grain, round(value / grain) * grain)


def _length_grain(value: float) -> float:
    return 1024 if value >= 16_384 else 256 if value >= 2048 else 64


LENGTHS = Scale(_length_grain, lambda value: format_tokens_short(round(value)))
FACTORS = Scale(lambda value: 1 if value >= 8 else 0.5 if value >= 4 else 0.25, lambda value: f"{value:g}")


class LogSlider(Widget, can_focus=True):
    """Two lines: the track with its marks, and what the marks are. What lies beyond ``limit`` is dashed."""

    DEFAULT_CSS = stylesheet(__file__)
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "less", show=False),
        Binding("right", "step(1)", "more", show=False),
        Binding("shift+left,pagedown", "double(-1)", "half", show=False),
        Binding("shift+right,pageup", "double(1)", "double", show=False),
        Binding("home", "end(0)", "least", show=False),
        Binding("end", "end(1)", "most", show=False),
        Binding("m", "next_mark", "next mark"),
    ]
    value: reactive[float] = reactive(1.0)

    @dataclass
    class Changed(Message):
        """The slider was moved to this value."""

        slider: LogSlider
        value: float

        @property
        def control(self) -> LogSlider:
            return self.slider

    def __init__(self, scale: Scale, *, low: float, high: float, id: str) -> None:
        super().__init__(id=id)
        self._scale, self._low, self._high = scale, low, high
        self._limit: float | None = None
        self._marks: tuple[Mark, ...] = ()
        self.set_reactive(LogSlider.value, low)

    def show(self, value: float) -> None:
        """Draw a value that came from elsewhere."""
        self.set_reactive(LogSlider.value, value)
        self.refresh()

    def set_range(self, *, low: float, high: float, marks: Sequence[Mark], limit: float | None) -> None:
        """Draw another range with its marks, the most telling first; ``limit`` None is no limit."""
        self._low, self._high = min(low, self.value), max(high, self.value)
        self._marks, self._limit = tuple(marks), limit
        self.refresh()

    def render(self) -> Content:
        """The track and the names under it."""
        return Content("\n").join((self._track(), self._names()))

    def _track(self) -> Content:
        limit = self._width() if self._limit is None else self._column(max(self._limit, self._low))
        cells = [("━", "$success") if column <= limit else ("╌", "$error") for column in range(self._width())]
        for mark in self._marks:
            cells[self._column(mark.value)] = (mark.symbol, "bold $foreground")
        cells[self._column(self.value)] = ("●", "bold $accent" if self.has_focus else "bold $primary")
        low, high = self._scale.write(self._low), self._scale.write(self._high)
        return Content.assemble(f"{low:>{_END_WIDTH - 1}} ", *cells, f" {high}").simplify()

    def _names(self) -> Content:
        """Each from its mark on, or up to it; the marks that were named first get the room."""
        line = [" "] * (self._width() + 2 * _END_WIDTH)
        for mark in self._marks:
            text, column = f"{mark.symbol} {mark.name}", _END_WIDTH + self._column(mark.value)
            for start, words in ((column, text), (column - len(text) + 1, f"{mark.name} {mark.symbol}")):
                around = line[max(0, start - 1) : start + len(words) + 1]
                if 0 <= start <= len(line) - len(words) and set(around) == {" "}:
                    line[start : start + len(words)] = words
                    break
        return Content.styled("".join(line).rstrip() or " ", "$grey")

    def _width(self) -> int:
        return max(8, self.size.width - 2 * _END_WIDTH)

    def _column(self, value: float) -> int:
        share = log2(max(value, self._low) / self._low) / (log2(self._high / self._low) or 1.0)
        return round(min(share, 1.0) * (self._width() - 1))

    def _move(self, value: float) -> None:
        self._take(min(max(self._scale.snap(value), self._low), self._high))

    def _take(self, value: float) -> None:
        if value != self.value:
            self.value = value
            self.post_message(self.Changed(self, value))

    def action_step(self, steps: int) -> None:
        """An eighth of a doubling; at least to the next value."""
        moved = self._scale.snap(self.value * 2 ** (steps / _STEPS))
        self._move(moved if moved != self.value else self.value + steps * self._scale.grain(self.value))

    def action_double(self, steps: int) -> None:
        self._move(self.value * 2.0**steps)

    def action_end(self, last: int) -> None:
        self._move(self._high if last else self._low)

    def action_next_mark(self) -> None:
        """Exactly to the next mark, from the last one to the first."""
        if self._marks:
            values = sorted(mark.value for mark in self._marks)
            self._take(next((value for value in values if value > self.value), values[0]))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Take hold of the slider."""
        self.capture_mouse()
        self._move_to(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.app.mouse_captured is self:
            self._move_to(event.x)

    def on_mouse_up(self) -> None:
        self.release_mouse()

    def on_mouse_scroll_up(self) -> None:
        self.action_step(1)

    def on_mouse_scroll_down(self) -> None:
        self.action_step(-1)

    def _move_to(self, x: int) -> None:
        share = (x - _END_WIDTH) / max(1, self._width() - 1)
        self._move(self._low * (self._high / self._low) ** min(max(share, 0.0), 1.0))


_SHORTEST, _LONGEST = 64, 16 * MIB


def trained_marks(native_context: int | None, supported_context: int | None) -> Iterator[Mark]:
    """What the weights were trained for and, where it is more, what the publisher describes."""
    if native_context:
        yield Mark(native_context, "┬", f"trained {format_tokens(native_context)}")
    if supported_context and supported_context != native_context:
        yield Mark(supported_context, "┴", f"published {format_tokens(supported_context)}")


def plan_marks(plan: Plan) -> Iterator[Mark]:
    """What fits, the same, and where attention comes to outweigh the rest of the work."""
    longest = plan.fit.max_context_len
    if longest and longest < _LONGEST:
        yield Mark(longest, "╂", f"fits {format_tokens(longest)}")
    yield from trained_marks(plan.native_context, plan.supported_context)
    crossover = plan.compute.crossover_len if plan.compute else None
    if crossover and crossover < _LONGEST:
        yield Mark(crossover, "×", f"crossover {format_tokens(crossover)}")


def slider_range(marks: Sequence[Mark]) -> tuple[int, int]:
    """From half of the shortest mark, or 1k, to the power of two above the longest, or 1M."""
    values = [round(mark.value) for mark in marks]
    low = min([1024, *(value // 2 for value in values)])
    high = max([MIB, *(2 ** (value - 1).bit_length() for value in values)])
    return max(_SHORTEST, low), min(high, _LONGEST)
