"""How long a context, on what, in what memory: the plan, made anew while the slider moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, HorizontalGroup, ItemGrid, VerticalGroup, VerticalScroll
from textual.content import Content
from textual.widgets import Static
from textual.worker import get_current_worker

from ropewalk.engines import planned_engines
from ropewalk.errors import RopewalkError
from ropewalk.findings import by_severity
from ropewalk.planner.records import MemoryTerm, Plan, PlanRequest
from ropewalk.report.command import fold
from ropewalk.report.plan import describe_rope
from ropewalk.report.ranks import rank_grid
from ropewalk.report.verdict import verdict
from ropewalk.tui.described import Described
from ropewalk.tui.screens.base import RecordScreen
from ropewalk.tui.screens.modal import Modal
from ropewalk.tui.state import AppState, Masks, Opened
from ropewalk.tui.text import clean, clean_lines, finding_line, finding_page
from ropewalk.tui.widgets.choice import Choice
from ropewalk.tui.widgets.entry import Entry
from ropewalk.tui.widgets.mask import MaskPicture
from ropewalk.tui.widgets.memory_bar import MemoryBar, term_lines
from ropewalk.tui.widgets.panel import Panel
from ropewalk.tui.widgets.record_list import RecordList
from ropewalk.tui.widgets.slider import LENGTHS, LogSlider, plan_marks, slider_range
from ropewalk.tui.widgets.work_bar import WorkBar
from ropewalk.tui.work import REACH_SEQUENCES, ReachRow
from ropewalk.units import MIB, format_bytes, format_tokens_short, parse_size, parse_tokens

_TONES = {"good": ("✓", "bold $success"), "bad": ("✗", "bold $error"), "strong": ("?", "bold $primary")}
_SEQUENCES = (1, 2, 4, 8, 16, 32)
_RANKS = (1, 2, 4, 8)


class PlanScreen(RecordScreen):
    """A slider and the wishes above; memory, what fits, rope, work, mask and command below."""

    PLACE = "plan"
    CSS_PATH = "plan.tcss"
    AUTO_FOCUS = "#slider"
    HELP = (
        "The slider is logarithmic: left and right move it by an eighth of a doubling, shift doubles and "
        "halves, m goes to the next mark. Its dashed part does not fit. Every term of the memory names the "
        "rule that it is counted by."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "exact", "type length"),
        Binding("y", "copy", "copy command"),
        Binding("l", "launch", "launch"),
        Binding("u", "unvalidated", "allow unpublished lengths", show=False),
    ]

    def compose_body(self) -> ComposeResult:
        """Slider, wishes, verdict, findings and the panels."""
        yield Static("Nothing is open. Press o to open a checkpoint.", id="nothing")
        with HorizontalGroup(id="length"):
            yield LogSlider(LENGTHS, low=1024, high=MIB, id="slider")
            yield Entry("", parse_tokens, id="context", width=12)
        with ItemGrid(id="wishes", min_column_width=24):
            yield Choice("engine", [(name, name) for name in planned_engines()], id="engine")
            yield Choice("sequences", [(count, str(count)) for count in _SEQUENCES], id="sequences")
            yield Choice("KV", id="cache")
            yield Choice("device", id="device")
            yield Entry("memory", _size_or_none, id="memory", placeholder="no limit")
            yield Choice("shards", [(count, f"TP {count}") for count in _RANKS], id="parallel")
            yield Choice("stages", [(count, f"PP {count}") for count in _RANKS], id="stages")
            yield Choice("nodes", [(count, str(count)) for count in _RANKS], id="nodes")
            yield Choice("unpublished lengths", [(False, "refuse"), (True, "allow")], id="unvalidated")
        yield Static(id="verdict")
        yield RecordList(id="findings")
        with VerticalScroll(id="panels", can_focus=False):
            with Container(id="columns"):
                with VerticalGroup(id="left"):
                    terms = RecordList(id="terms", start_on_first=True)
                    yield Panel("Memory", MemoryBar(id="bar"), terms, Static(id="source"), id="memory-panel")
                    yield Panel("Work", WorkBar(id="work"), id="work-panel")
                with VerticalGroup(id="right"):
                    yield Panel("What fits", Static(id="reach"), id="reach-panel")
                    yield Panel("Rope", Static(id="rope"), id="rope-panel")
                    yield Panel("Mask: live cells of one head", MaskPicture(id="mask"), id="mask-panel")
            yield Panel("Ranks", Static(id="ranks"), id="ranks-panel")
            yield Panel("Command", Static(id="command"), id="command-panel")

    def show(self, desk: AppState) -> None:
        """Draw the wishes, and the plan for them."""
        self.set_class(desk.opened is None, "-empty")
        if desk.opened is None or desk.request is None:
            return
        self._show_wishes(desk, desk.request)
        if desk.problem is not None:
            self._show_problem(desk.problem)
        elif desk.plan is not None:
            self._show_length(desk.plan)
            self._show_plan(desk.plan)
            if desk.is_planned:
                self._look_further(desk.opened, desk.request, desk.plan)

    def _show_wishes(self, desk: AppState, request: PlanRequest) -> None:
        values = {
            "engine": request.engine,
            "sequences": request.num_sequences,
            "cache": request.cache_type_k,
            "device": request.device,
            "parallel": request.tensor_parallel,
            "stages": request.pipeline_parallel,
            "nodes": request.nodes,
            "unvalidated": request.allow_unvalidated,
        }
        types = [(name, name) for name in self.ropewalk.backend.cache_types(request.engine)]
        devices = [("auto", "auto"), *((device.id, device.id) for device in desk.devices)]
        for name, value in values.items():
            options = {"cache": types, "device": devices}.get(name)
            self.query_one(f"#{name}", Choice).show(value, options)
        size = request.memory_bytes
        self.query_one("#memory", Entry).show("" if size is None else format_bytes(size).replace(" ", ""))
        self.query_one("#context", Entry).show(str(request.context_len))
        self.query_one(LogSlider).show(request.context_len)

    def _show_length(self, plan: Plan) -> None:
        marks = list(plan_marks(plan))
        low, high = slider_range(marks)
        limit = None if plan.fit.budget_bytes is None else plan.fit.max_context_len or 1
        self.query_one(LogSlider).set_range(low=low, high=high, marks=marks, limit=limit)

    def _show_problem(self, problem: RopewalkError) -> None:
        self.query_one("#verdict", Static).update(
            Content.assemble(("✗ no plan", "bold $error"), f"  {clean(problem.message)}")
        )
        self.query_one("#panels").display = False

    def _show_plan(self, plan: Plan) -> None:
        self.query_one("#panels").display = True
        said = verdict(plan)
        mark, style = _TONES[said.tone]
        words = Content.assemble((f"{mark} {said.word}", style), "  ", " · ".join(said.parts))
        self.query_one("#verdict", Static).update(words)
        findings = self.query_one("#findings", RecordList)
        findings.display = bool(plan.findings)
        findings.show((finding, finding_line(finding)) for finding in by_severity(plan.findings))
        self.query_one(MemoryBar).show(plan)
        self.query_one("#terms", RecordList).show(term_lines(plan.memory))
        self.query_one(WorkBar).show(plan)
        self.query_one("#rope", Static).update(rope_page(plan))
        several = len(plan.memory.per_device) > 1
        self.query_one("#ranks-panel").display = several
        if several:
            self.query_one("#ranks", Static).update(Described(rank_grid(plan)))
        self.query_one("#command", Static).update(command_page(plan, self.size.width - 8))
        self.query_one("#memory-panel").border_subtitle = _cache_words(plan)

    @work(thread=True, exclusive=True, group="further")
    def _look_further(self, opened: Opened, request: PlanRequest, plan: Plan) -> None:
        """What takes longer than a key press: other numbers of sequences, and the mask."""
        backend, worker = self.ropewalk.backend, get_current_worker()
        rows, masks = backend.reach(opened, request), backend.masks(opened, plan)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show_further, rows, masks)

    def _show_further(self, rows: tuple[ReachRow, ...], masks: Masks | None) -> None:
        self.query_one("#reach", Static).update(reach_page(rows))
        self.query_one(MaskPicture).show(masks)

    @on(LogSlider.Changed)
    def _slid(self, event: LogSlider.Changed) -> None:
        self.ropewalk.ask(context_len=round(event.value))

    @on(Entry.Changed, "#context")
    def _typed_length(self, event: Entry.Changed) -> None:
        self.ropewalk.ask(context_len=event.value)

    @on(Entry.Changed, "#memory")
    def _typed_memory(self, event: Entry.Changed) -> None:
        self.ropewalk.ask(memory_bytes=event.value)

    @on(Choice.Changed)
    def _chose(self, event: Choice.Changed) -> None:
        self.ropewalk.ask(**_WISHES[event.choice.id or ""](self.desk, event.value))

    @on(RecordList.Highlighted, "#terms")
    def _term_highlighted(self, event: RecordList.Highlighted) -> None:
        term: MemoryTerm = event.record
        self.query_one("#source", Static).update(Content(clean(term.source)))

    @on(RecordList.Chosen, "#findings")
    def _finding_chosen(self, event: RecordList.Chosen) -> None:
        finding = event.record
        self.app.push_screen(Modal(finding.code, finding_page(finding), text=finding.message))

    def action_exact(self) -> None:
        self.set_focus(self.query_one("#context Input"))

    def action_copy(self) -> None:
        """The command, on one line."""
        plan = self.desk.plan
        if plan is not None and plan.launch is not None and self.desk.is_planned:
            self.ropewalk.copy(plan.launch.command, "the command")

    def action_launch(self) -> None:
        """Over to the serve screen, with this plan."""
        self.app.switch_mode("serve")

    def action_unvalidated(self) -> None:
        """Allow what no publisher describes, or refuse it."""
        if self.desk.request is not None:
            self.ropewalk.ask(allow_unvalidated=not self.desk.request.allow_unvalidated)


def _cache_words(plan: Plan) -> str:
    """What the model needs to keep beside what the engine reserves for it."""
    kv = plan.memory.kv
    return f"needs {format_bytes(kv.logical_bytes)} of cache, {format_bytes(kv.reserved_bytes)} reserved"


def rope_page(plan: Plan) -> Content:
    """The decision, why, and on whose word."""
    rope = plan.rope
    style = "bold $error" if rope.decision == "refuse" else "bold"
    return Content.assemble(
        (describe_rope(rope), style),
        "\n",
        clean(rope.reason),
        "\n",
        (f"source: {clean(rope.source)}", "$grey"),
    )


def command_page(plan: Plan, width: int) -> Content:
    """The command folded for reading; ``y`` copies it on one line."""
    if plan.launch is None:
        return Content.styled("none: this plan cannot be served", "$grey")
    how = "confirmed by" if plan.launch.confirmed_by == "engine" else "worked out, not run, from the rules of"
    engine = f"{plan.launch.engine} {plan.launch.engine_version or ''}".rstrip()
    return Content.assemble(
        clean_lines(fold(plan.launch.command, width=max(40, width))), "\n", (f"{how} {engine}", "$grey")
    )


def reach_page(rows: tuple[ReachRow, ...]) -> Content:
    """Largest context per sequence: cache types down, numbers of sequences across."""
    if not rows:
        return Content.styled("give a memory, and this says what fits in it", "$grey")
    head = "".join(f"{f'{count} x':>8}" for count in REACH_SEQUENCES)
    lines = [Content.styled(f"{'':8}{head}", "$grey")]
    for row in rows:
        cells = "".join(
            f"{'–' if length is None else format_tokens_short(length):>8}" for length in row.context_lens
        )
        lines.append(Content.assemble(f"{row.cache_type:8}", (cells, "bold")))
    return Content("\n").join(lines)


def _size_or_none(text: str) -> int | None:
    return parse_size(text) if text.strip() else None


def _for_engine(desk: AppState, value: Any) -> dict[str, Any]:
    return {"engine": value, "cache_type_k": "auto", "cache_type_v": "auto"}


def _for_device(desk: AppState, value: Any) -> dict[str, Any]:
    """A device comes with its memory."""
    device = next((device for device in desk.devices if device.id == value), None)
    return {"device": value} | ({"memory_bytes": device.memory_bytes} if device else {})


_WISHES: dict[str, Callable[[AppState, Any], dict[str, Any]]] = {
    "engine": _for_engine,
    "device": _for_device,
    "cache": lambda desk, value: {"cache_type_k": value, "cache_type_v": value},
    "sequences": lambda desk, value: {"num_sequences": value},
    "parallel": lambda desk, value: {"tensor_parallel": value},
    "stages": lambda desk, value: {"pipeline_parallel": value},
    "nodes": lambda desk, value: {"nodes": value},
    "unvalidated": lambda desk, value: {"allow_unvalidated": value},
}
SCREEN = PlanScreen
