"""The memory of a plan as one stacked bar against what the devices have."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content
from textual.widget import Widget

from ropewalk.planner.records import DeviceShare, Memory, MemoryTerm, Plan
from ropewalk.report.figures import common_unit, in_unit, span
from ropewalk.report.plan import term_name
from ropewalk.report.verdict import needed_low
from ropewalk.tui.themes import stylesheet
from ropewalk.units import format_bytes

# Symbol and colour of a term; a symbol of its own, so that the bar reads without colour.
LOOKS = {
    "weights": ("█", "$blue"),
    "kv_cache": ("▓", "$orange"),
    "state": ("▚", "$green"),
    "cross_attention_cache": ("▞", "$green"),
    "indexer_cache": ("▒", "$yellow"),
    "activations": ("◆", "$purple"),
    "compute_buffer": ("◆", "$purple"),
    "logits": ("◇", "$purple"),
    "output_buffer": ("◇", "$purple"),
    "score_matrix": ("#", "$red"),
    "cuda_graphs": ("+", "$yellow"),
    "draft_model": ("▙", "$blue"),
    "projector": ("▟", "$blue"),
    "prompt_cache": ("=", "$orange"),
    "context_checkpoints": ("≡", "$orange"),
    "process_overhead": ("-", "$grey"),
}
_OTHER = ("~", "$grey")
_RANGE = ("░", "$grey")
Cell = tuple[str, str]


def look(name: str) -> Cell:
    """Symbol and colour of a memory term."""
    return LOOKS.get(name, _OTHER)


class MemoryBar(Widget):
    """Two lines: the bar, and in words what is needed, usable and left."""

    DEFAULT_CSS = stylesheet(__file__)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plan: Plan | None = None

    def show(self, plan: Plan) -> None:
        self._plan = plan
        self.refresh()

    def render(self) -> Content:
        if self._plan is None:
            return Content("")
        return Content("\n").join((stacked(self._plan, self.size.width), describe_memory(self._plan)))


def capacity(plan: Plan) -> int | None:
    """What all devices of the plan have together; host memory beside them is not counted."""
    budget, sizes = plan.fit.budget_bytes, plan.request.node_memory_bytes
    if budget is None:
        return None
    return sum(sizes[share.place.node] if sizes and share.place else budget for share in _judged(plan))


def _usable(plan: Plan) -> int:
    """What the engine may use of that."""
    usable = plan.fit.usable_bytes or 0
    return sum((share.place and share.place.budget_bytes) or usable for share in _judged(plan))


def _judged(plan: Plan) -> list[DeviceShare]:
    return [share for share in plan.memory.per_device if share.fits is not None]


def stacked(plan: Plan, width: int) -> Content:
    """Terms side by side at their lower ends, then the range of the estimates; red beyond the devices."""
    room, width = capacity(plan), max(width, 1)  # 0 before it is laid out
    scale = max(room or 0, plan.memory.high_bytes, 1)
    cells = list(_cells(plan.memory, scale, width))[:width]
    cells += [("·", "$frame")] * (width - len(cells))
    if room is not None:
        end = min(width - 1, round(room / scale * width))
        cells = [
            (symbol, "bold $error") if at >= end and symbol != "·" else (symbol, style)
            for at, (symbol, style) in enumerate(cells)
        ]
        cells[end] = ("┃", "bold $foreground")
    return Content.assemble(*cells).simplify()


def _cells(memory: Memory, scale: int, width: int) -> Iterator[Cell]:
    """Every term's edge is rounded where it is, so that the whole is never longer than its sum."""
    sum_bytes = drawn = 0
    for term in memory.terms:
        sum_bytes += term.low_bytes
        edge = round(sum_bytes / scale * width)
        yield from [look(term.name)] * (edge - drawn)
        drawn = max(drawn, edge)
    yield from [_RANGE] * (round(memory.high_bytes / scale * width) - drawn)


def describe_memory(plan: Plan) -> Content:
    """``33.3 to 36.1 GiB needed · 44.16 GiB usable of 48.00 GiB · 8.0 GiB free``."""
    low, high = needed_low(plan.memory), plan.memory.high_bytes
    parts = [f"{span(low, high, to=' to ')} needed"]
    room = capacity(plan)
    if room is not None:
        parts.append(f"{format_bytes(_usable(plan))} usable of {format_bytes(room)}")
    return Content.styled(" · ".join(parts), "$grey")


def term_line(term: MemoryTerm, unit: str, *, name_width: int = 18) -> Content:
    """``▓ KV cache   18.00 GiB  engine rule``."""
    symbol, style = look(term.name)
    ends = dict.fromkeys((in_unit(term.low_bytes, unit), in_unit(term.high_bytes, unit)))
    amount = f"{'–'.join(ends)} {unit}"
    basis = term.basis.replace("_", " ")
    return Content.assemble(
        (symbol, style),
        f" {term_name(term.name):{name_width}}",
        (f"{amount:>15}", "bold"),
        (f"  {basis}", "dim"),
    )


def term_lines(memory: Memory) -> Iterator[tuple[MemoryTerm, Content]]:
    """A line for every term, all in one unit."""
    unit = common_unit(term.high_bytes for term in memory.terms)
    for term in memory.terms:
        yield term, term_line(term, unit)
