"""How positions turn: wavelengths against the trained and the target context, and what scaling does."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, HorizontalGroup, Vertical
from textual.content import Content
from textual.widgets import Static
from textual.worker import get_current_worker

from ropewalk import jsonio
from ropewalk.errors import RopewalkError, UsageError
from ropewalk.planner.records import PlanRequest, RopeDecision
from ropewalk.planner.rope.table import RopePair, RopeTable
from ropewalk.report.plan import describe_rope
from ropewalk.tui.plotting import Level, Series, axis_over
from ropewalk.tui.screens.base import RecordScreen
from ropewalk.tui.state import AppState, Opened
from ropewalk.tui.text import clean, finding_line
from ropewalk.tui.widgets.choice import Choice
from ropewalk.tui.widgets.entry import Entry
from ropewalk.tui.widgets.panel import Panel, ScrollPanel
from ropewalk.tui.widgets.plot import Figure, Plot
from ropewalk.tui.widgets.record_list import RecordList
from ropewalk.tui.widgets.slider import FACTORS, LENGTHS, LogSlider, slider_range, trained_marks
from ropewalk.units import MIB, format_tokens, format_tokens_short, parse_tokens

_ARMS = (("auto", "decided"), ("shipped", "as shipped"), ("unscaled", "unscaled"))


class RopeScreen(RecordScreen):
    """The plot on the left, the decision on the right, what to copy below."""

    PLACE = "rope"
    CSS_PATH = "rope.tcss"
    AUTO_FOCUS = "#length"
    HELP = (
        "Each pair of numbers in a head turns with its own wavelength. The plot shows tokens per turn; where "
        "a scaling moves pairs, one line before it and one with it. A pair above the line of the trained "
        "context never completed a turn in training."
    )
    TIPS: ClassVar[dict[str, str]] = {
        "length": "The length to decide for, in tokens.",
        "plot-panel": (
            "Tokens in which each pair turns once: 2π over its rate, computed as the engine does, in "
            "double precision."
        ),
        "decision-panel": "The decision of the plan with its reason and source.",
        "blocks-panel": "The exact text for each engine that takes this scaling.",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "auto", "decided"),
        Binding("comma", "factor(-1)", "factor", key_display=", ."),
        Binding("full_stop", "factor(1)", "more", show=False),
        Binding("p", "pairs", "pairs"),
        Binding("y", "copy", "copy block"),
    ]

    def compose_body(self) -> ComposeResult:
        """Wishes above, plot and decision, blocks below."""
        yield Static("Nothing is open. Press o to open a checkpoint.", id="nothing")
        with HorizontalGroup(classes="line"):
            yield LogSlider(LENGTHS, low=1024, high=MIB, id="length")
            yield Entry("", parse_tokens, id="context", width=12)
        with HorizontalGroup(classes="line -short"):
            yield LogSlider(FACTORS, low=1, high=64, id="factor")
            yield Entry("factor", _factor, id="exact", width=8)
            yield Choice("rope", _ARMS, id="arm")
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield Panel(
                    "Tokens per turn, pair by pair", Plot(id="plot"), Static(id="key"), id="plot-panel"
                )
                yield ScrollPanel("Pairs", Static(id="pairs"), id="pairs-panel")
            with Vertical(id="right"):
                yield ScrollPanel("Decision", Static(id="decision"), id="decision-panel")
                yield Panel("To copy", RecordList(id="blocks"), id="blocks-panel")

    def show(self, desk: AppState) -> None:
        """Draw the wishes now, the table when it is computed."""
        self.set_class(desk.opened is None, "-empty")
        if desk.opened is None or desk.request is None:
            return
        request = desk.request
        self.query_one("#context", Entry).show(format_tokens(request.context_len))
        self.query_one("#length", LogSlider).show(request.context_len)
        self.query_one("#arm", Choice).show(request.arm)
        self._compute(desk.opened, request)

    @work(thread=True, exclusive=True, group="rope")
    def _compute(self, opened: Opened, request: PlanRequest) -> None:
        worker = get_current_worker()
        try:
            table, problem = self.ropewalk.backend.rope(opened, request), None
        except RopewalkError as error:
            table, problem = None, error
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show_table, table, problem)

    def _show_table(self, table: RopeTable | None, problem: RopewalkError | None) -> None:
        plot, decision = self.query_one(Plot), self.query_one("#decision", Static)
        if table is None:
            plot.show(None)
            decision.update(
                Content.assemble(("✗ ", "bold $error"), clean(problem.message if problem else ""))
            )
            self.query_one("#blocks", RecordList).show(())
            return
        self._show_range(table)
        plot.show(figure(table))
        self.query_one("#key", Static).update(key_line(table))
        decision.update(decision_page(table))
        self.query_one("#pairs", Static).update(pairs_page(table))
        self.query_one("#blocks", RecordList).show(
            (text, Content.assemble((f"{name}\n", "bold $primary"), clean(text)))
            for name, text in blocks(table.decision)
        )

    def _show_range(self, table: RopeTable) -> None:
        marks = list(trained_marks(table.native_context, table.supported_context))
        low, high = slider_range(marks)
        limit = table.supported_context or table.native_context
        self.query_one("#length", LogSlider).set_range(low=low, high=high, marks=marks, limit=limit)
        factor = table.decision.factor or 1.0
        self.query_one("#factor", LogSlider).show(factor)
        self.query_one("#exact", Entry).show(f"{factor:g}")

    @on(LogSlider.Changed, "#length")
    def _slid_length(self, event: LogSlider.Changed) -> None:
        self.ropewalk.ask(context_len=round(event.value))

    @on(LogSlider.Changed, "#factor")
    def _slid_factor(self, event: LogSlider.Changed) -> None:
        self.ropewalk.ask(arm=f"yarn:{event.value:g}")

    @on(Entry.Changed, "#context")
    def _typed_length(self, event: Entry.Changed) -> None:
        self.ropewalk.ask(context_len=event.value)

    @on(Entry.Changed, "#exact")
    def _typed_factor(self, event: Entry.Changed) -> None:
        self.ropewalk.ask(arm=f"yarn:{event.value:g}")

    @on(Choice.Changed, "#arm")
    def _chose_arm(self, event: Choice.Changed) -> None:
        self.ropewalk.ask(arm=event.value)

    @on(RecordList.Chosen, "#blocks")
    def _block_chosen(self, event: RecordList.Chosen) -> None:
        self.ropewalk.copy(event.record, "the block")

    def action_auto(self) -> None:
        """Back to what ropewalk decides."""
        self.ropewalk.ask(arm="auto")

    def action_factor(self, step: int) -> None:
        """A smaller or a larger factor."""
        self.query_one("#factor", LogSlider).action_step(step)

    def action_pairs(self) -> None:
        """The pairs as a table instead of the plot."""
        self.toggle_class("-pairs")

    def action_copy(self) -> None:
        """The block under the cursor, or the first."""
        texts = self.query_one("#blocks", RecordList)
        text = texts.record() or next(iter(texts.records), None)
        if text is not None:
            self.ropewalk.copy(text, "the block")


def figure(table: RopeTable) -> Figure | None:
    """Wavelengths over the pairs, with the trained and the target context as lines."""
    waves = [(pair.index, pair.wavelength) for pair in table.pairs if pair.wavelength]
    if not waves:
        return None
    touched = set(table.touched)
    scaled = [
        (p.index, p.scaled_wavelength) for p in table.pairs if p.index in touched and p.scaled_wavelength
    ]
    levels = []
    if table.native_context:
        levels.append(Level(table.native_context, f"trained {format_tokens(table.native_context)}", "$blue"))
    if table.context_len != table.native_context:
        levels.append(Level(table.context_len, f"asked {format_tokens(table.context_len)}", "$green", "╌"))
    heights = [
        *(wave for _, wave in waves),
        *(wave for _, wave in scaled),
        *(level.value for level in levels),
    ]
    return Figure(
        series=(
            Series([(index, wave) for index, wave in waves if index in touched], "$grey"),
            Series([(index, nan if index in touched else wave) for index, wave in waves], "$foreground"),
            Series(scaled, "bold $orange"),
        ),
        levels=levels,
        x_axis=axis_over([0.0, float(table.pairs[-1].index)]),
        y_axis=axis_over(heights, base=2),
        write_x=lambda value: f"{value:.0f}",
        write_y=lambda value: format_tokens_short(round(value)),
    )


def key_line(table: RopeTable) -> Content:
    """What the symbols of the plot mean."""
    if not table.touched:
        return Content.styled("⣀⠤⠒ as shipped", "$foreground")
    return Content.assemble(
        ("⠒⠤⣀ unchanged", "$foreground"), "   ", ("⠒⠤⣀ before", "$grey"), "   ",
        ("⠒⠤⣀ with the scaling", "bold $orange"),
    )  # fmt: skip


def decision_page(table: RopeTable) -> Content:
    """The decision with its reason, what it changes, and what is to be known about it."""
    decision = table.decision
    mark, style = ("✗ ", "bold $error") if decision.decision == "refuse" else ("", "bold")
    lines = [
        Content.styled(f"{mark}{describe_rope(decision)}", style),
        Content(clean(decision.reason)),
        Content.styled(f"source: {clean(decision.source)}", "$grey"),
        Content(""),
        *(Content.assemble((f"{name:10}", "$grey"), words) for name, words in _figures(table)),
        *(finding_line(finding) for finding in table.findings),
    ]
    return Content("\n").join(lines)


def _figures(table: RopeTable) -> Iterator[tuple[str, str]]:
    count = len(table.pairs)
    yield "target", f"{format_tokens(table.context_len)} tokens with {table.engine}"
    yield "theta", f"{table.rope_theta:,.0f}"
    yield "pairs", f"{count}, {table.rotary_dim} of {table.head_dim} numbers of a head turn"
    yield "scaled", f"{len(table.touched)} of {count} pairs rotate more slowly"
    if table.native_context:
        yield "no turn", f"{len(table.incomplete)} pairs never completed a turn in training"
    if table.attention_factor is not None:
        yield "attention", f"scale {table.attention_factor:.6g}"


def pairs_page(table: RopeTable) -> Content:
    """Every pair: rate, tokens of a turn, and both with the scaling."""
    head = f"{'pair':>5}{'rate':>12}{'tokens':>12}{'scaled':>12}{'tokens':>12}{'ratio':>8}"
    lines = [Content.styled(head, "bold $primary")]
    lines += [
        Content.styled(_pair_line(pair), "$orange" if pair.index in table.touched else "")
        for pair in table.pairs
    ]
    return Content("\n").join(lines)


def _pair_line(pair: RopePair) -> str:
    def number(value: float | None, form: str) -> str:
        return "–" if value is None else f"{value:{form}}"

    return (
        f"{pair.index:>5}{number(pair.rate, '.4g'):>12}{number(pair.wavelength, ',.1f'):>12}"
        f"{number(pair.scaled_rate, '.4g'):>12}{number(pair.scaled_wavelength, ',.1f'):>12}"
        f"{number(pair.ratio, '.4f'):>8}"
    )


def blocks(decision: RopeDecision) -> Iterator[tuple[str, str]]:
    """What to put where, for every engine that takes the decision."""
    yield from (
        (name, jsonio.dumps(block, indent=None))
        for name, block in (
            ("vLLM --hf-overrides", decision.vllm_hf_overrides),
            ("transformers 5, config.json", decision.transformers_v5),
            ("transformers 4, config.json", decision.transformers_v4),
        )
        if block is not None
    )
    if decision.llama_server_flags:
        yield "llama.cpp", " ".join(decision.llama_server_flags)


def _factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1.0 <= value <= 1024.0:
        raise UsageError(f"{text!r} is no factor from 1 to 1024", where={"value": text})
    return value


SCREEN = RopeScreen
