"""Plan beside reality: for each memory term a bar that was planned over one that was seen."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content
from textual.widget import Widget

from ropewalk.planner.records import Plan
from ropewalk.report.figures import bar, common_unit, in_unit, range_bar
from ropewalk.report.plan import term_name
from ropewalk.serving.server_report import ServerReport
from ropewalk.tui.themes import stylesheet
from ropewalk.tui.widgets.memory_bar import look

_NAME, _FIGURE = 17, 16


class PairBars(Widget):
    """Two lines for every term that the engine prints, one for those that it does not."""

    DEFAULT_CSS = stylesheet(__file__)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plan: Plan | None = None
        self._report: ServerReport | None = None

    def show(self, plan: Plan, report: ServerReport | None) -> None:
        """Draw what was planned, and what the server reports if it is ready."""
        self._plan, self._report = plan, report
        self.refresh(layout=True)

    def render(self) -> Content:
        if self._plan is None:
            return Content("")
        return Content("\n").join(pair_lines(self._plan, self._report, self.size.width))


def pair_lines(plan: Plan, report: ServerReport | None, width: int) -> Iterator[Content]:
    """Planned above, printed by the engine below, all in one unit and on one scale."""
    terms = plan.memory.terms
    unit = common_unit(term.high_bytes for term in terms)
    printed = {term.name: report.printed(term.name) if report else None for term in terms}
    scale = max([1, *(term.high_bytes for term in terms), *(one.bytes for one in printed.values() if one)])
    room = max(8, width - _NAME - _FIGURE)
    for term in terms:
        _, style = look(term.name)
        ends = "–".join(dict.fromkeys((in_unit(term.low_bytes, unit), in_unit(term.high_bytes, unit))))
        drawn = range_bar(term.low_bytes / scale, term.high_bytes / scale, room)
        yield _line(term_name(term.name), f"{ends} {unit}", drawn, "$grey")
        seen = printed[term.name]
        if seen is not None:
            fits = term.low_bytes - seen.rounding_bytes <= seen.bytes <= term.high_bytes + seen.rounding_bytes
            mark = "= printed" if fits else "≠ printed"
            yield _line(
                f"  {mark}", f"{in_unit(seen.bytes, unit)} {unit}", bar(seen.bytes / scale, room), style
            )


def _line(name: str, figure: str, drawn: str, style: str) -> Content:
    return Content.assemble(f"{name:{_NAME}}", (f"{figure:>{_FIGURE - 1}} ", "bold"), (drawn, style))
