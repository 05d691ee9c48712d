"""The planned server: checked, started, watched beside its plan, stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, HorizontalGroup
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from ropewalk.errors import UsageError
from ropewalk.report.figures import bar
from ropewalk.report.verdict import verdict
from ropewalk.serving.records import GRACE_SECONDS
from ropewalk.tui.plotting import Series, axis_over
from ropewalk.tui.screens.base import RecordScreen
from ropewalk.tui.screens.modal import AskSheet, Modal
from ropewalk.tui.serverrun import ServerRun, ServerView
from ropewalk.tui.state import AppState
from ropewalk.tui.text import clean, clean_lines, finding_line
from ropewalk.tui.widgets.entry import Entry
from ropewalk.tui.widgets.log_view import LogView
from ropewalk.tui.widgets.pair_bars import PairBars
from ropewalk.tui.widgets.panel import Panel, ScrollPanel
from ropewalk.tui.widgets.plot import Figure, Plot
from ropewalk.units import format_bytes, format_seconds, format_tokens

if TYPE_CHECKING:
    from ropewalk.serving.live import Moment

_BAR = 16
_TEST = "The three largest cities of Europe are"
_TEST_TOKENS = 32
_STATES = {
    "checking": ("◌", "$primary", "checking"),
    "refused": ("✗", "bold $error", "not started"),
    "starting": ("◌", "bold $warning", "starting"),
    "ready": ("●", "bold $success", "ready"),
    "stopping": ("◌", "bold $warning", f"stopping, at most {GRACE_SECONDS:.0f} s"),
    "stopped": ("○", "$grey", "stopped"),
    "failed": ("✗", "bold $error", "failed"),
}
_CHECKS = {True: ("✓", "bold $success"), False: ("✗", "bold $error"), None: ("?", "$grey")}
_STOPPABLE = ("checking", "starting", "ready")
_ACTIVE = (*_STOPPABLE, "stopping")


class ServeScreen(RecordScreen):
    """Checks and log above, plan beside reality and what it does now below."""

    PLACE = "serve"
    CSS_PATH = "serve.tcss"
    AUTO_FOCUS = "#log"
    HELP = (
        "s starts what the plan screen planned, after checks that take a moment and save a failed start. "
        "Below, each planned term stands beside what the engine itself printed of it. The server ends with "
        "this application."
    )
    TIPS: ClassVar[dict[str, str]] = {
        "pairs-panel": (
            "The planned term above what the engine printed of it; = where the printed figure lies "
            "within the planned range and the digits that were printed."
        ),
        "rates-panel": "Tokens per second between two looks, by the engine's own counters.",
        "kv-panel": "The share of the cache in use, as the engine tells it.",
        "log-panel": "What the engine prints, without the questions that ask how it is.",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "start", "start"),
        Binding("F", "force", "start anyway", show=False),
        Binding("x", "stop", "stop"),
        Binding("slash", "search", "search log", key_display="/"),
        Binding("v", "curves", "curves"),
        Binding("y", "copy", "copy address"),
        Binding("t", "test", "test prompt"),
        Binding("w", "wrap", "wrap", show=False),
        Binding("z", "zoom", "zoom log"),
        Binding("escape", "leave_search", "log", show=False),
    ]

    @dataclass
    class Told(Message):
        """The thread of the server said this."""

        view: ServerView

    @dataclass
    class Ended(Message):
        """The thread of the server has nothing more to say."""

        view: ServerView

    def __init__(self) -> None:
        super().__init__()
        self._view: ServerView | None = None
        self._run: ServerRun | None = None
        self._port: int | None = None

    def compose_body(self) -> ComposeResult:
        """State, checks and log, plan beside reality, load."""
        with HorizontalGroup(id="line"):
            yield Static(id="state")
            yield Entry("port", _port_or_none, id="port", width=8, placeholder="engine's")
        yield Static(id="load")
        with Container(id="body"):
            yield ScrollPanel("Before the start", Static(id="checks"), id="checks-panel")
            field = Input(placeholder="search the log", id="search", compact=True)
            yield Panel("Log", LogView(id="log"), field, id="log-panel")
        with Horizontal(id="below"):
            yield ScrollPanel(
                "Plan beside reality", PairBars(id="pairs"), Static(id="findings"), id="pairs-panel"
            )
            yield Panel("Tokens per second", Plot(empty="no request yet", id="rates"), id="rates-panel")
            yield Panel("KV cache in use", Plot(empty="not ready", id="kv"), id="kv-panel")

    def show(self, desk: AppState) -> None:
        """Draw the server, or what would be started."""
        self._draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only the keys that do something now."""
        active = self._view is not None and self._view.state in _ACTIVE
        allowed = {
            "start": not active,
            "force": not active,
            "stop": self._view is not None and self._view.state in _STOPPABLE,
            "copy": self._view is not None and self._view.service is not None,
            "test": self._view is not None and self._view.state == "ready",
        }
        return allowed.get(action, True)

    @on(Entry.Changed, "#port")
    def _typed_port(self, event: Entry.Changed) -> None:
        self._port = event.value

    @on(Input.Changed, "#search")
    def _searched(self, event: Input.Changed) -> None:
        self.query_one(LogView).search(event.value)
        self._count_lines()

    @on(Input.Submitted, "#search")
    def action_leave_search(self) -> None:
        self.set_focus(self.query_one(LogView))

    def action_search(self) -> None:
        self.set_focus(self.query_one("#search"))

    def action_start(self) -> None:
        """Check and start what is planned."""
        self._begin(force=False)

    def action_force(self) -> None:
        """Start in spite of a failed check, after asking."""
        question = "Start in spite of the failed checks?"
        self.app.push_screen(
            AskSheet(question, yes="start"), lambda agreed: self._begin(force=True) if agreed else None
        )

    def _begin(self, *, force: bool) -> None:
        opened, plan = self.desk.opened, self.desk.plan
        if opened is None or plan is None:
            self.notify("there is no plan yet: o opens a checkpoint", severity="warning")
        elif not self.desk.is_planned:
            self.notify("the plan is still being made", severity="warning")
        elif not plan.may_start:
            self.notify(f"{verdict(plan).word}: the plan screen says why", severity="error")
        else:
            run = ServerRun(self.ropewalk.backend.serving, opened, plan, self._tell)
            self._run, self._view = run, run.view
            self.ropewalk.running["the server"] = run.stop
            self._serve(run, force=force)
            self._draw()

    @work(thread=True, group="serve")
    def _serve(self, run: ServerRun, *, force: bool) -> None:
        run.run(port=self._port, force=force)
        self.post_message(self.Ended(run.view))

    def on_serve_screen_ended(self, message: Ended) -> None:
        self.ropewalk.running.pop("the server", None)
        self._view = message.view
        self._draw()

    def _tell(self, view: ServerView) -> None:
        """From the thread of the server."""
        self.post_message(self.Told(view))

    def on_serve_screen_told(self, message: Told) -> None:
        """Draw what the server did."""
        self._view = message.view
        self._draw()

    def action_stop(self) -> None:
        """Stop the server and all of its processes."""
        self._stop()

    @work(thread=True, group="stop")
    def _stop(self) -> None:
        if self._run is not None:
            self._run.stop()

    def action_copy(self) -> None:
        """The address that OpenAI's clients take."""
        if self._view is not None and self._view.service is not None:
            self.ropewalk.copy(self._view.service.openai_url, "the address")

    def action_wrap(self) -> None:
        """Break the long lines of the log, or no longer."""
        self.query_one(LogView).wrap()

    def action_zoom(self) -> None:
        """Give all room to the log; again to all."""
        self.toggle_class("-zoomed")

    @work(thread=True, exclusive=True, group="test")
    def action_test(self) -> None:
        """Ask the server to go on with a few words, and show its answer."""
        service = self._view.service if self._view is not None else None
        if service is None:
            return
        client = service.server.client
        tokens = client.tokenize(_TEST, add_special=True, parse_special=False)
        said = client.complete(tokens, max_tokens=_TEST_TOKENS, cache_prompt=False)
        speed = said.decode_tokens_per_second
        rate = "" if speed is None else f" at {speed:,.1f} tokens/s"
        page = Content.assemble(
            (_TEST, "$grey"), (clean_lines(said.text), "bold"),
            (f"\n\n{len(said.tokens)} tokens{rate}", "$grey"),
        )  # fmt: skip
        self.app.call_from_thread(self.app.push_screen, Modal("Test prompt", page, text=said.text))

    def action_curves(self) -> None:
        """Rates and cache use instead of the bars, where there is no room for all."""
        self.toggle_class("-curves")

    def _draw(self) -> None:
        if not self.is_current:
            return
        view, plan = self._view, self.desk.plan
        self.query_one("#state", Static).update(state_line(view, self.desk))
        self.refresh_bindings()
        shown = (
            view.plan if view is not None and view.state in _ACTIVE else plan or (view.plan if view else None)
        )
        if shown is not None:
            service = view.service if view and shown is view.plan else None
            report = service.server.report if service else None
            self.query_one(PairBars).show(shown, report)
        if view is None:
            return
        self.set_class(view.state == "ready", "-ready")
        self.query_one("#checks", Static).update(Content("\n").join(check_lines(view)))
        self.query_one("#load", Static).update(Content("\n").join((load_line(view), curl_line(view))))
        self.query_one(LogView).show(view.lines)
        self._count_lines()
        self.query_one("#rates", Plot).show(rates_figure(view.moments))
        self.query_one("#kv", Plot).show(kv_figure(view.moments))
        findings = view.service.server.findings if view.service else ()
        self.query_one("#findings", Static).update(Content("\n").join(map(finding_line, findings)))

    def _count_lines(self) -> None:
        view, found = self._view, self.query_one(LogView).found
        if view is not None:
            self.query_one("#log-panel").border_subtitle = f"{len(found):,} of {len(view.lines):,} lines"


def state_line(view: ServerView | None, desk: AppState) -> Content:
    """The state of the server, or what ``s`` would start."""
    if view is None:
        if desk.plan is None:
            return Content.styled("Nothing is planned. Press o to open a checkpoint.", "$grey")
        said = verdict(desk.plan)
        return Content(f"s starts {desk.plan.request.engine}: {said.word.lower()}, {said.parts[0]}")
    symbol, style, words = _STATES[view.state]
    parts = [Content.styled(f"{symbol} {words}", style)]
    if view.problem:
        parts.append(Content(clean(view.problem.splitlines()[0])))
    elif view.service is not None and view.state == "ready":
        url, server = view.service.openai_url, view.service.server
        length = format_tokens(server.report.context_len)
        parts.append(Content(f"{url} after {format_seconds(server.ready_seconds)}, {length} tokens"))
    return Content("  ").join(parts)


def check_lines(view: ServerView) -> Iterator[Content]:
    """A tick for every check that was made, and where the log is."""
    for item in view.checks:
        mark, style = _CHECKS[item.ok]
        yield Content.assemble((mark, style), (f" {item.name}  ", "bold"), (clean(item.message), "$grey"))
    if view.state == "checking":
        yield Content.styled("◌ …", "$primary")
    if view.problem:
        yield Content.styled(clean(view.problem), "$error")
    if view.log_path is not None:
        yield Content.styled(f"log: {view.log_path}", "$grey")


def load_line(view: ServerView) -> Content:
    """Cache in use, rates, memory, age: as of the last look."""
    if not view.moments or view.state != "ready":
        return Content("")
    now = view.moments[-1]
    parts = [Content.styled(now.state, "bold $success" if now.state == "busy" else "$grey")]
    load = now.load
    if load is not None and load.kv_share is not None:
        tokens = "" if load.kv_tokens is None else f", {format_tokens(load.kv_tokens)} tokens"
        drawn = f"{bar(load.kv_share, _BAR):{_BAR}}"
        parts.append(Content.assemble("KV ", (drawn, "$orange on $panel"), f" {load.kv_share:.0%}{tokens}"))
    if load is not None:
        parts.insert(1, Content(f"running {load.running} · waiting {load.waiting}"))
    last = "" if now.state == "busy" else "last "
    for name, rate in (("prompt", now.prompt_rate), ("answer", now.generated_rate)):
        if rate is not None:
            parts.append(Content(f"{last}{name} {rate:,.0f} tokens/s"))
    if now.memory is not None:
        parts.append(
            Content(f"{format_bytes(now.memory.anon_bytes)} + {format_bytes(now.memory.file_bytes)} mapped")
        )
    parts.append(Content(f"up {format_seconds(now.uptime_seconds)}"))
    return Content(" · ").join(parts)


def curl_line(view: ServerView) -> Content:
    """What asks the server from another terminal."""
    if view.service is None or view.state != "ready":
        return Content("")
    passed = sum(item.ok is True for item in view.checks)
    ask = '-H \'Content-Type: application/json\' -d \'{"prompt":"Hello","max_tokens":16}\''
    return Content.assemble(
        (f"{passed} ✓", "$success"), (f"  curl {view.service.openai_url}/completions {ask}", "$grey")
    )


def rates_figure(moments: tuple[Moment, ...]) -> Figure | None:
    """Tokens per second over time: of prompts and of answers."""
    prompts = [(one.uptime_seconds, one.prompt_rate) for one in moments if one.prompt_rate is not None]
    answers = [(one.uptime_seconds, one.generated_rate) for one in moments if one.generated_rate is not None]
    if not prompts and not answers:
        return None
    points = [*prompts, *answers]
    return Figure(
        series=(Series(prompts, "$blue"), Series(answers, "$orange")),
        x_axis=axis_over([x for x, _ in points]),
        y_axis=axis_over([y for _, y in points]),
        write_x=lambda value: f"{value:g} s",
        write_y=lambda value: f"{value:,.0f}",
    )


def kv_figure(moments: tuple[Moment, ...]) -> Figure | None:
    """The share of the cache that is in use over time."""
    points = [
        (one.uptime_seconds, 100 * one.load.kv_share)
        for one in moments
        if one.load is not None and one.load.kv_share is not None
    ]
    if not points:
        return None
    return Figure(
        series=(Series(points, "$orange"),),
        x_axis=axis_over([x for x, _ in points]),
        y_axis=axis_over([100.0]),
        write_x=lambda value: f"{value:g} s",
        write_y=lambda value: f"{value:.0f} %",
    )


def _port_or_none(text: str) -> int | None:
    if not text.strip():
        return None
    if not text.strip().isdecimal() or int(text) > 65_535:
        raise UsageError(f"{text!r} is no port from 0 (a free one) to 65535", where={"value": text})
    return int(text)


SCREEN = ServeScreen
