"""Past measurements: find one, look at it, compare two, take one out as a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from ropewalk.errors import RopewalkError
from ropewalk.measuring.records import Measurement
from ropewalk.measuring.run_pair import RunPair
from ropewalk.measuring.store import RunSummary
from ropewalk.report.measurement import measurement_page
from ropewalk.report.run_pair import runpair_page
from ropewalk.tui.described import Described
from ropewalk.tui.screens.base import RecordScreen
from ropewalk.tui.screens.modal import AskSheet, ChooseSheet, Modal
from ropewalk.tui.text import clean
from ropewalk.tui.widgets.panel import Panel, ScrollPanel
from ropewalk.tui.widgets.record_list import RecordList
from ropewalk.units import format_tokens

_STATUS = {
    "finished": ("✓", "$success"),
    "running": ("▸", "$primary"),
    "interrupted": ("‖", "$warning"),
    "failed": ("✗", "$error"),
    "unreadable": ("?", "$error"),
}
_COPIED_WIDTH = 100
_KINDS = (
    ("h", "html", "HTML: the report, one file"),
    ("m", "md", "Markdown: for an issue or a model card"),
    ("c", "csv", "CSV: every trial"),
    ("j", "json", "JSON: the record"),
)


class RunsScreen(RecordScreen):
    """The list on top, the run under the cursor below."""

    PLACE = "runs"
    CSS_PATH = "runs.tcss"
    AUTO_FOCUS = "#runs"
    HELP = (
        "Every measurement is kept from its first trial on. Space marks a run; with two marked, c compares "
        "them. Enter opens a run on the measure screen, cell by cell; an interrupted one can go on there."
    )
    TIPS: ClassVar[dict[str, str]] = {
        "runs": "Stored measurements, the newest first.",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("space", "mark", "mark"),
        Binding("c", "compare", "compare"),
        Binding("e", "export", "export"),
        Binding("d", "forget", "delete"),
        Binding("escape", "leave_filter", "list", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._listed: tuple[RunSummary, ...] = ()
        self._marked: tuple[str, ...] = ()

    def compose_body(self) -> ComposeResult:
        """A filter, the list, the run."""
        with Container(id="body"):
            with Vertical(id="list-side"):
                yield Input(
                    placeholder="filter: words of id, checkpoint, arm, status", id="filter", compact=True
                )
                yield Panel("Runs", RecordList(id="runs", start_on_first=True), id="runs-panel")
            yield ScrollPanel("Run", Static(id="run"), id="run-panel")

    def on_screen_resume(self) -> None:
        """Look at what is stored whenever the screen is entered."""
        self._look()

    @work(thread=True, exclusive=True, group="runs")
    def _look(self) -> None:
        self._ask(self.ropewalk.backend.stored.runs, self._show_runs)

    def _ask(self, question: Callable[[], Any], answer: Callable[[Any], None]) -> None:
        """In a worker: ask the store; what it refuses is shown instead of an answer."""
        worker = get_current_worker()
        try:
            said = question()
        except RopewalkError as error:
            self.app.call_from_thread(self.notify, error.message, severity="error")
            return
        if not worker.is_cancelled:
            self.app.call_from_thread(answer, said)

    def _show_runs(self, runs: tuple[RunSummary, ...]) -> None:
        self._listed = runs
        self._list()

    def _list(self) -> None:
        words = self.query_one("#filter", Input).value.lower().split()
        found = [run for run in self._listed if all(word in _searched(run) for word in words)]
        self.query_one("#runs", RecordList).show(
            (run, run_line(run, run.run_id in self._marked)) for run in found
        )
        self.query_one("#runs-panel").border_subtitle = f"{len(found)} of {len(self._listed)}"
        if not found:
            none = "No runs yet. Press 5 to measure." if not self._listed else "no run matches"
            self.query_one("#run", Static).update(Content.styled(none, "$grey"))

    @on(Input.Changed, "#filter")
    def _filtered(self) -> None:
        self._list()

    @on(Input.Submitted, "#filter")
    def action_leave_filter(self) -> None:
        self.set_focus(self.query_one("#runs"))

    @on(RecordList.Highlighted, "#runs")
    def _highlighted(self, event: RecordList.Highlighted) -> None:
        self._load(event.record.run_id, self._show_run)

    @work(thread=True, exclusive=True, group="run")
    def _load(self, run_id: str, then: Callable[[Measurement], None]) -> None:
        self._ask(partial(self.ropewalk.backend.stored.run, run_id), then)

    def _show_run(self, run: Measurement) -> None:
        self.query_one("#run-panel").border_title = run.run_id
        self.query_one("#run", Static).update(Described(measurement_page(run)))

    @on(RecordList.Chosen, "#runs")
    def _chosen(self, event: RecordList.Chosen) -> None:
        self.ropewalk.show_run(event.record.run_id)

    def action_filter(self) -> None:
        self.set_focus(self.query_one("#filter"))

    def action_mark(self) -> None:
        """Mark the run under the cursor, or no longer; of three the oldest mark goes."""
        run: RunSummary | None = self.query_one("#runs", RecordList).record()
        if run is None:
            return
        if run.run_id in self._marked:
            self._marked = tuple(one for one in self._marked if one != run.run_id)
        else:
            self._marked = (*self._marked, run.run_id)[-2:]
        self._list()

    def action_compare(self) -> None:
        """The two marked runs; or the marked one and the one under the cursor."""
        run: RunSummary | None = self.query_one("#runs", RecordList).record()
        pair = tuple(dict.fromkeys((*self._marked, *([run.run_id] if run else []))))[:2]
        if len(pair) < 2:
            self.notify("mark two runs with space", severity="warning")
        else:
            self._compare(*pair)

    @work(thread=True, exclusive=True, group="run")
    def _compare(self, left: str, right: str) -> None:
        stored = self.ropewalk.backend.stored
        self._ask(partial(stored.pair, left, right), self._show_comparison)

    def _show_comparison(self, pair: RunPair) -> None:
        page = Described(runpair_page(pair))
        self.app.push_screen(Modal("Two runs", page, text=page.content(_COPIED_WIDTH).plain))

    def action_export(self) -> None:
        """The run under the cursor as a file."""
        run: RunSummary | None = self.query_one("#runs", RecordList).record()
        if run is not None:
            self.app.push_screen(ChooseSheet("Export as", _KINDS), partial(self._export_as, run.run_id))

    def _export_as(self, run_id: str, kind: str | None) -> None:
        if kind is not None:
            self._export(run_id, kind)

    @work(thread=True, group="export")
    def _export(self, run_id: str, kind: str) -> None:
        self._ask(
            partial(self.ropewalk.backend.stored.report, run_id, kind),
            partial(self.ropewalk.export, f"{run_id}.{kind}"),
        )

    def action_forget(self) -> None:
        """Delete the run under the cursor, after asking."""
        run: RunSummary | None = self.query_one("#runs", RecordList).record()
        if run is not None:
            question = f"Delete run {run.run_id} with its {run.trials} trials and logs?"
            self.app.push_screen(AskSheet(question, yes="delete"), partial(self._forget_if, run.run_id))

    def _forget_if(self, run_id: str, agreed: bool | None) -> None:
        if agreed:
            self._forget(run_id)

    @work(thread=True, group="forget")
    def _forget(self, run_id: str) -> None:
        self._ask(partial(self.ropewalk.backend.stored.forget, run_id), self._forgotten)

    def _forgotten(self, nothing: None) -> None:
        self._look()


def run_line(run: RunSummary, marked: bool) -> Content:
    """Mark, status, id, date, target, trials, checkpoint, arms."""
    symbol, style = _STATUS[run.status]
    name = run.checkpoint.rstrip("/").rsplit("/", 1)[-1]
    return Content.assemble(
        ("◉ " if marked else "  ", "bold $accent"),
        (f"{symbol} ", style),
        (f"{run.run_id}  ", "bold"),
        (f"{run.created[:10]}  ", "$grey"),
        f"{format_tokens(run.target_len):>9} {run.trials:>4}  ",
        clean(name),
        (f"  {', '.join(run.arms)}", "$grey"),
    )


def _searched(run: RunSummary) -> str:
    return " ".join((run.run_id, run.checkpoint, run.status, *run.arms)).lower()


SCREEN = RunsScreen
