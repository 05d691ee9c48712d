"""What is recalled at which length, under which rope: the grid filling in, its cells, its curves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, ItemGrid
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from ropewalk import core
from ropewalk.errors import RopewalkError, UsageError
from ropewalk.measuring import events
from ropewalk.measuring.recall.tasks import Asked
from ropewalk.measuring.records import Measurement, Trial
from ropewalk.measuring.settings import MeasureSettings, RunRequest
from ropewalk.planner.records import PlanRequest
from ropewalk.report.figures import bar
from ropewalk.serving.records import GRACE_SECONDS
from ropewalk.tui.control import Control, Held
from ropewalk.tui.curves import arm_key, memory_figure, prefill_figure
from ropewalk.tui.runview import RunView, stored_view
from ropewalk.tui.screens.base import RecordScreen
from ropewalk.tui.screens.modal import AskSheet, Modal
from ropewalk.tui.state import AppState, Opened
from ropewalk.tui.text import clean, finding_line
from ropewalk.tui.widgets.choice import Choice
from ropewalk.tui.widgets.entry import Entry
from ropewalk.tui.widgets.heatmap import Heatmap
from ropewalk.tui.widgets.panel import Panel, ScrollPanel
from ropewalk.tui.widgets.plot import Plot
from ropewalk.tui.widgets.trial_page import cell_page
from ropewalk.units import format_seconds, format_tokens

_BAR = 12
_YES_NO = ((True, "yes"), (False, "no"))
_TASKS = (
    ("niah_single", "one needle"),
    ("niah_multikey", "many keys"),
    ("niah_multivalue", "many values"),
    ("variable_tracking", "tracking"),
    ("common_words", "word counts"),
    ("copy_uuid", "copy UUID"),
    ("copy_json", "copy JSON"),
)


class MeasureScreen(RecordScreen):
    """Wishes, grid and cell, curves, progress."""

    PLACE = "measure"
    CSS_PATH = "measure.tcss"
    AUTO_FOCUS = "#heatmap"
    HELP = (
        "Every arm answers the same questions: needles at several depths of prompts of several lengths. "
        "Arrows walk over the cells, enter opens one with its prompt and answer. A pause takes hold after "
        "the prompt under way; stopping keeps every trial, and the run can go on later."
    )
    TIPS: ClassVar[dict[str, str]] = {
        "heatmap": (
            "A cell is what came of the questions at one length and depth; hits of judged trials with "
            "the 95 % interval of Wilson. Refused prompts are not judged."
        ),
        "cell-panel": "The trials of the cell under the cursor: what was hidden, asked and answered.",
        "memory-panel": (
            "Anonymous memory of the server's processes, sampled from outside; the line is what was "
            "planned without the weights."
        ),
        "prefill-panel": (
            "Seconds of whole prompts as the server reports them; the curve is the planned work at the "
            "measured pace."
        ),
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "start", "start"),
        Binding("p", "pause", "pause"),
        Binding("c", "go_on", "continue"),
        Binding("x", "stop", "stop"),
        Binding("t", "task", "task", show=False),
        Binding("v", "curves", "curves"),
        Binding("enter", "open_cell", "open cell"),
    ]

    @dataclass
    class Told(Message):
        """The run in the other thread said this."""

        event: events.Event | Held

    @dataclass
    class Ended(Message):
        """The thread of the run has nothing more to say; ``problem`` is why it could not measure."""

        problem: str | None

    def __init__(self) -> None:
        super().__init__()
        self._view: RunView | None = None
        self._control: Control | None = None
        self._waiting = False
        self._task_place = 0
        self._problem: str | None = None

    def compose_body(self) -> ComposeResult:
        """Wishes, grid and cell, curves, progress."""
        with ItemGrid(id="wishes", min_column_width=18):
            yield Choice("as shipped", _YES_NO, id="shipped")
            yield Choice("as decided", _YES_NO, id="auto")
            yield Choice("unscaled", _YES_NO, id="unscaled")
            yield Entry("YaRN", _factor_or_none, id="yarn", width=6, placeholder="1.5")
            yield Choice("task", _TASKS, id="tasks")
            yield Choice("trials", [(count, str(count)) for count in (1, 2, 3, 6)], id="trials")
            yield Entry("minutes", _minutes_or_none, id="minutes", width=6, placeholder="all")
        yield Static(id="headline")
        with Container(id="body"):
            yield Panel("Recall", Heatmap(id="heatmap"), id="grid-panel")
            yield ScrollPanel("Cell", Static(id="cell"), id="cell-panel")
        with Horizontal(id="curves"):
            yield Panel("Memory over time", Plot(empty="no sample yet", id="memory"), id="memory-panel")
            yield Panel("Prefill over length", Plot(empty="no prompt yet", id="prefill"), id="prefill-panel")
        yield Static(id="progress")

    def on_mount(self) -> None:
        """What is asked unless somebody chooses otherwise."""
        for name, value in (("shipped", True), ("auto", True), ("unscaled", False), ("trials", 1)):
            self.query_one(f"#{name}", Choice).show(value)
        self.query_one("#tasks", Choice).show(_TASKS[0][0])
        self._minutes: float | None = None
        self._yarn: float | None = None

    def show(self, desk: AppState) -> None:
        """Draw the run, or what would be asked."""
        wanted = self.ropewalk.shown_run
        if wanted is not None and self._control is None:
            self.ropewalk.shown_run = None
            self._load(wanted)
        self._draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only the keys that do something now."""
        running = self._control is not None
        paused = self._control is not None and self._control.is_paused
        interrupted = self._view is not None and self._view.status == "interrupted" and not running
        allowed = {
            "start": not running,
            "pause": running and not paused,
            "go_on": paused or interrupted,
            "stop": running,
        }
        return allowed.get(action, True)

    @on(Entry.Changed, "#minutes")
    def _typed_minutes(self, event: Entry.Changed) -> None:
        self._minutes = event.value

    @on(Entry.Changed, "#yarn")
    def _typed_factor(self, event: Entry.Changed) -> None:
        self._yarn = event.value

    def action_start(self) -> None:
        """Measure what is asked for, on what is open."""
        desk = self.desk
        if desk.opened is None or desk.request is None:
            self.notify("open a checkpoint first: o", severity="warning")
            return
        self._run(desk.opened, self._order(desk.request))

    def _order(self, request: PlanRequest) -> RunRequest:
        chosen = [name for name in ("shipped", "auto") if self.query_one(f"#{name}", Choice).value]
        chosen += [f"yarn:{self._yarn:g}"] if self._yarn is not None else []
        chosen += ["unscaled"] if self.query_one("#unscaled", Choice).value else []
        settings = MeasureSettings(
            tasks=(self.query_one("#tasks", Choice).value,),
            trials=self.query_one("#trials", Choice).value,
            minutes=self._minutes,
            plan=core.server_options(request),
        )
        return RunRequest(request.context_len, tuple(chosen), engine=request.engine, settings=settings)

    def _run(self, opened: Opened, order: RunRequest) -> None:
        control = Control(self._tell)
        self._control, self._problem, self._waiting = control, None, False
        self._view = self._view if order.resume else RunView("", target_len=order.context_len)
        self.ropewalk.running["the measurement"] = control.stop
        self._measure(opened, order, control)
        self._draw()

    def _tell(self, event: events.Event | Held) -> None:
        """From the thread of the run."""
        self.post_message(self.Told(event))

    @work(thread=True, group="measure")
    def _measure(self, opened: Opened, order: RunRequest, control: Control) -> None:
        problem = None
        try:
            with control.run():
                self.ropewalk.backend.stored.measure(opened, order, control)
        except RopewalkError as error:
            problem = error.message
        except KeyboardInterrupt:
            problem = None  # it was told to end while it began
        self.post_message(self.Ended(problem))

    def on_measure_screen_ended(self, message: Ended) -> None:
        """The run is over, or could not begin."""
        self._control, self._problem, self._waiting = None, message.problem, False
        self.ropewalk.running.pop("the measurement", None)
        self.ropewalk.ask()  # its speed may be known now
        self._draw()

    def on_measure_screen_told(self, message: Told) -> None:
        if isinstance(message.event, Held):
            self._waiting = message.event.waiting
        elif self._view is not None:
            self._view = self._view.after(message.event)
        self._draw()

    def action_pause(self) -> None:
        """Hold the run at its next step."""
        if self._control is not None:
            self._control.pause()
            self._draw()

    def action_go_on(self) -> None:
        """Let it go on; a run that was ended earlier is begun again where it stopped."""
        if self._control is not None:
            self._control.resume()
            self._draw()
        elif self._view is not None and self.desk.opened is not None and self._view.target_len:
            order = RunRequest(self._view.target_len, resume=self._view.run_id)
            self._run(self.desk.opened, order)

    def action_stop(self) -> None:
        """End the run, after asking."""
        question = "Stop the measurement? Every trial is kept, and it can go on later."
        self.app.push_screen(AskSheet(question, yes="stop"), self._stop_if)

    def _stop_if(self, agreed: bool | None) -> None:
        if agreed and self._control is not None:
            self._control.end()
            self._draw()

    def action_task(self) -> None:
        """The grid of the next task."""
        self._task_place += 1
        self._draw()

    def action_curves(self) -> None:
        """The curves instead of the cell, where there is no room for both."""
        self.toggle_class("-curves")

    @work(thread=True, exclusive=True, group="load")
    def _load(self, run_id: str) -> None:
        stored = self.ropewalk.backend.stored
        try:
            view = stored_view(stored.run(run_id), stored.trials(run_id))
        except RopewalkError as error:
            self.app.call_from_thread(self.notify, error.message, severity="error")
        else:
            self.app.call_from_thread(self._loaded, view)

    def _loaded(self, view: RunView) -> None:
        self._view, self._problem = view, None
        self._draw()

    def _draw(self) -> None:
        """Everything, from the view as it is."""
        if not self.is_current:
            return
        view, desk = self._view, self.desk
        self.set_class(view is None, "-unused")
        self.query_one("#headline", Static).update(headline(view, desk, self._problem))
        self.query_one("#progress", Static).update(self._progress())
        self.refresh_bindings()
        if view is None:
            return
        tasks = view.tasks() or (self.query_one("#tasks", Choice).value,)
        task = tasks[self._task_place % len(tasks)]
        heatmap = self.query_one(Heatmap)
        heatmap.show(view, task)
        self.query_one("#grid-panel").border_title = Content(f"Recall of {task}")
        self.query_one("#grid-panel").border_subtitle = Content(view.run_id)
        self._show_cell()
        plan = desk.plan
        context_len = view.target_len or 1
        self.query_one("#memory", Plot).show(memory_figure(view, plan))
        compute = plan.compute if plan is not None and plan.context_len == context_len else None
        self.query_one("#prefill", Plot).show(prefill_figure(view, compute, context_len))
        self.query_one("#memory-panel").border_subtitle = _key(view)

    @on(Heatmap.Highlighted)
    def _show_cell(self) -> None:
        self.query_one("#cell", Static).update(cell_page(list(self._cell())))

    def _cell(self) -> Iterator[tuple[Trial, Asked | None]]:
        key = self.query_one(Heatmap).key()
        if self._view is not None and key is not None:
            for trial in self._view.trials_of(key):
                yield trial, core.asked(trial, self._view.depths)

    def action_open_cell(self) -> None:
        """The cell under the cursor over the whole screen."""
        page = cell_page(list(self._cell()))
        self.app.push_screen(Modal("Cell", page, text=page.plain))

    def _progress(self) -> Content:
        view, control = self._view, self._control
        if control is None or view is None:
            return Content("")
        if self._waiting:
            return Content.styled("‖ paused · c continue", "bold $warning")
        words = "pausing after this prompt" if control.is_paused else doing_now(view)
        words = f"stopping, at most {GRACE_SECONDS:.0f} s" if control.is_ended else words
        progress = view.progress
        if progress is None or not progress.total_tokens:
            return Content.assemble(("▸ ", "bold $primary"), words)
        share = progress.done_tokens / progress.total_tokens
        left = "" if progress.seconds_left is None else f", {format_seconds(progress.seconds_left)} left"
        return Content.assemble(
            ("▸ ", "bold $primary"),
            (f"{bar(share, _BAR):{_BAR}}", "$primary"),
            f" {share:4.0%}{left}  ",
            (words, "$grey"),
        )


def doing_now(view: RunView) -> str:
    """What the run is at, in words."""
    if view.starting is not None:
        return f"{view.starting}: starting the server"
    if view.current is None:
        return "preparing"
    arm = view.arm(view.current.arm)
    expected = view.current.expected_seconds
    about = "" if expected is None else f", about {format_seconds(expected)}"
    label = arm.label if arm else view.current.arm
    return f"{label}: {format_tokens(view.current.length)} tokens, depth {view.current.depth:.0%}{about}"


def headline(view: RunView | None, desk: AppState, problem: str | None) -> Content:
    """The verdict of a run that has one, why one failed, or what would be measured."""
    if problem is not None:
        return Content.assemble(("✗ ", "bold $error"), clean(problem))
    if view is None:
        if desk.request is None:
            return Content.styled("Nothing is open. Press o to open a checkpoint, 6 for past runs.", "$grey")
        return Content(
            f"s measures {format_tokens(desk.request.context_len)} tokens; the plan screen sets the length"
        )
    run = view.measurement
    lines = [] if run is None else list(_verdict(run))
    return Content("\n").join(lines) if lines else Content(f"run {view.run_id or 'starting'}")


def _verdict(run: Measurement) -> Iterator[Content]:
    if run.comparison is not None:
        yield Content.styled(clean(run.comparison.verdict), "bold")
    findings = [*run.findings, *(finding for arm in run.arms for finding in arm.findings)]
    worst = [finding for finding in findings if finding.severity == "error"]
    yield from (finding_line(finding) for finding in worst[:2])
    if run.status != "finished":
        yield Content.styled(
            f"{run.status}: c continues it" if run.status == "interrupted" else run.status, "$warning"
        )


def _key(view: RunView) -> Content:
    parts = (Content.assemble((symbol, style), f" {name}") for symbol, style, name in arm_key(view))
    return Content("  ").join(parts)


def _factor_or_none(text: str) -> float | None:
    return _number(text, "YaRN factor from 1 to 1024", low=1.0, high=1024.0)


def _minutes_or_none(text: str) -> float | None:
    return _number(text, "number of minutes", low=0.1, high=100_000.0)


def _number(text: str, what: str, *, low: float, high: float) -> float | None:
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise UsageError(f"{text!r} is no {what}", where={"value": text})
    return value


SCREEN = MeasureScreen
