"""How long a context, on what, in what memory: the plan, made anew while the slider moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, HorizontalGroup, ItemGrid, Vertical
from textual.content import Content
from textual.widgets import Static
from textual.worker import get_current_worker

from ropewalk.engines import planned_engines
from ropewalk.errors import RopewalkError
from ropewalk.findings import by_severity
from ropewalk.planner.records import MemoryTerm, Plan, PlanRequest
from ropewalk.report.command import fold
from ropewalk.report.plan import describe_rope, ways_table
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
from ropewalk.tui.widgets.panel import Panel, ScrollPanel
from ropewalk.tui.widgets.panel_tabs import PanelTabs
from ropewalk.tui.widgets.record_list import RecordList
from ropewalk.tui.widgets.slider import LENGTHS, LogSlider, plan_marks, slider_range
from ropewalk.tui.widgets.work_bar import WorkBar
from ropewalk.tui.work import REACH_SEQUENCES, ReachRow
from ropewalk.units import MIB, format_bytes, format_tokens, parse_size, parse_tokens

_TONES = {
    "good": ("✓", "bold $success"),
    "warn": ("!", "bold $orange"),
    "bad": ("✗", "bold $error"),
    "strong": ("?", "bold $primary"),
}
_PANELS = ("Ways", "Memory", "Fits", "Rope", "Work", "Mask", "Ranks", "Command")
_SEQUENCES = (1, 2, 4, 8, 16, 32)
_RANKS = (1, 2, 4, 8)


class PlanScreen(RecordScreen):
    """A slider and the wishes above; memory, what fits, rope, work, mask and command below."""

    PLACE = "plan"
    CSS_PATH = "plan.tcss"
    AUTO_FOCUS = "#slider"
    HELP = (
        "The slider is logarithmic: left and right move it by an eighth of a doubling, shift doubles and "
        "halves, m goes to the next mark. Its dashed part does not fit. [ and ] go from panel to panel, z "
        "gives one all the room. Every term of the memory names the rule that it is counted by."
    )
    TIPS: ClassVar[dict[str, str]] = {
        "slider": (
            "Tokens per sequence, prompt and answer together. Trained and published lengths are the "
            "checkpoint's and its publisher's; fits is the largest length for the memory above, by the "
            "upper end of the estimate."
        ),
        "memory-panel": (
            "Each term with its bytes: exact is counted from the tensors, engine rule is what the "
            "engine's source does, an estimate has its range. The line below names the rule of the term "
            "under the cursor."
        ),
        "ways-panel": (
            "Single changes by which this plan would fit, each planned anew: what the fullest device "
            "then needs of what the engine may use of it."
        ),
        "fits-panel": (
            "The largest context per sequence for 1, 2, 4 and 8 sequences by cache type, from the "
            "memory formula turned round; by memory alone, whatever the model was trained for."
        ),
        "rope-panel": (
            "Whether positions are scaled, by the publisher's rule where there is one, and the source "
            "of that rule."
        ),
        "work-panel": (
            "Floating-point operations counted from the shapes, exact for what is counted; seconds are "
            "a bound by nominal speed, or calibrated by a stored measurement."
        ),
        "mask-panel": "Cells of one head's score matrix that are computed: exact, the picture is coarse.",
        "ranks-panel": "What each device holds by the engine's own cut: weights exact, the rest at most.",
        "command-panel": (
            "What starts this plan: worked out by the rules of the named version, or confirmed by the "
            "installed engine."
        ),
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "exact", "length"),
        Binding("right_square_bracket", "panel(1)", "panel", key_display="[ ]"),
        Binding("left_square_bracket", "panel(-1)", "panel before", show=False),
        Binding("z", "zoom", "zoom"),
        Binding("y", "copy", "copy"),
        Binding("l", "launch", "launch"),
        Binding("u", "unvalidated", "allow unpublished lengths", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._had_ways = False

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
            yield Choice("unpublished", [(False, "refuse"), (True, "allow")], id="unvalidated")
        yield Static(id="verdict")
        yield RecordList(id="findings")
        yield PanelTabs(id="tabs")
        with Container(id="panels"):
            with Container(id="columns"):
                with Vertical(id="left"):
                    terms = RecordList(id="terms", start_on_first=True)
                    yield Panel("Memory", MemoryBar(id="bar"), terms, Static(id="source"), id="memory-panel")
                with Vertical(id="right"):
                    yield ScrollPanel("Ways out", Static(id="ways"), id="ways-panel")
                    yield ScrollPanel("What fits", Static(id="reach"), id="fits-panel")
                    yield ScrollPanel("Rope", Static(id="rope"), id="rope-panel")
                    yield ScrollPanel("Work", WorkBar(id="work"), id="work-panel")
                    mask = MaskPicture(id="mask")
                    yield ScrollPanel("Mask: live cells of one head", mask, id="mask-panel")
                    yield ScrollPanel("Ranks", Static(id="ranks"), id="ranks-panel")
            yield ScrollPanel("Command", Static(id="command"), id="command-panel")

    def on_mount(self) -> None:
        """What stands beside the memory before anybody chose."""
        self.query_one("#fits-panel").add_class("-beside")

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
        self.query_one("#context", Entry).show(format_tokens(request.context_len))
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
        self.query_one("#panels").display = self.query_one(PanelTabs).display = False

    def _show_plan(self, plan: Plan) -> None:
        self.query_one("#panels").display = self.query_one(PanelTabs).display = True
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
        self._offer(plan, several=several)
        self.query_one("#ways", Static).update(Described(ways_table(plan.ways_out)))
        if several:
            self.query_one("#ranks", Static).update(Described(rank_grid(plan)))
        self.query_one("#command", Static).update(command_page(plan, self.size.width - 8))
        self.query_one("#memory-panel").border_subtitle = _cache_words(plan)

    def _offer(self, plan: Plan, *, several: bool) -> None:
        """The panels that have something to say; ways out are looked at once when there are some."""
        has_ways = bool(plan.ways_out)
        has = {"Ways": has_ways, "Ranks": several, "Work": plan.compute is not None}
        names = [name for name in _PANELS if has.get(name, True)]
        tabs = self.query_one(PanelTabs)
        if has_ways and not self._had_ways:
            tabs.chosen = "Ways"
            self._show_panel("Ways")
        self._had_ways = has_ways
        tabs.show(names, marked=frozenset({"Ways"} & set(names)))

    @on(PanelTabs.Changed)
    def _panel_changed(self, event: PanelTabs.Changed) -> None:
        self._show_panel(event.name)

    def _show_panel(self, name: str) -> None:
        """The panel in the one place that there is, or beside the memory."""
        chosen = f"{name.lower()}-panel"
        beside = [panel.id for panel in self.query_one("#right").children]
        for panel in self.query("#memory-panel, #command-panel, #right > *"):
            panel.set_class(panel.id == chosen, "-chosen")
            if chosen in beside and panel.id in beside:
                panel.set_class(panel.id == chosen, "-beside")
        for column in ("left", "right"):
            parts = self.query_one(f"#{column}")
            parts.set_class(any(child.id == chosen for child in parts.children), "-chosen")
        self.query_one("#columns").set_class(name != "Command", "-chosen")

    def action_panel(self, steps: int) -> None:
        """The next panel, wherever the focus is."""
        self.query_one(PanelTabs).action_step(steps)

    def action_zoom(self) -> None:
        """Give all room to one panel; again to all."""
        self.toggle_class("-zoomed")

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
    head = "".join(f"{f'{count} x':>10}" for count in REACH_SEQUENCES)
    lines = [Content.styled(f"{'':8}{head}", "$grey")]
    for row in rows:
        cells = "".join(
            f"{'–' if length is None else format_tokens(length):>10}" for length in row.context_lens
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
