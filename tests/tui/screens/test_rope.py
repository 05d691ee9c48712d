"""The rope screen: the plot, the factor, the blocks to copy."""

from __future__ import annotations

from tests.tui.conftest import SMALL, Drive, press
from tests.tui.doubles import FakeBackend
from textual.pilot import Pilot
from textual.widgets import Static

from ropewalk.errors import UsageError
from ropewalk.tui.widgets.entry import Entry
from ropewalk.tui.widgets.plot import Plot
from ropewalk.tui.widgets.record_list import RecordList


def words(pilot: Pilot[None], selector: str) -> str:
    """The text of a part of the screen."""
    return str(pilot.app.screen.query_one(selector, Static).content)


def test_wavelengths_rise_past_the_trained_and_the_asked_context(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> str:
        await press(pilot, "shift+right", "shift+right")
        return str(pilot.app.screen.query_one(Plot).render())

    plot = drive(script, place="rope")
    lines = plot.splitlines()
    asked = next(line for line in lines if "asked 131,072" in line)
    trained = next(line for line in lines if "trained 32,768" in line)
    assert lines.index(asked) < lines.index(trained)
    assert "╌" in asked
    dots = [any("\u2800" < character <= "\u28ff" for character in line) for line in lines]
    assert dots[0]  # the slowest pairs are above
    assert dots[-2]  # the fastest below
    assert lines[-1].split() == ["0", "20", "40", "60"]


def test_the_decision_stands_with_its_reason_and_source(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> str:
        return words(pilot, "#decision")

    lines = drive(script, place="rope").splitlines()
    assert lines[:3] == [
        "YaRN factor 4.0 from 32,768", "131,072 / 32,768, the publisher's rule", "source: QwenLM/Qwen3 docs",
    ]  # fmt: skip
    assert "scaled    40 of 64 pairs rotate more slowly" in lines
    assert "no turn   24 pairs never completed a turn in training" in lines


def test_the_factor_is_a_slider_a_number_and_a_pair_of_keys(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await press(pilot, "full_stop")
        assert words(pilot, "#decision").startswith("YaRN factor 4.5")
        pilot.app.screen.query_one("#factor").focus()
        await press(pilot, "shift+left", "home")
        pilot.app.screen.query_one("#exact Input").focus()
        await press(pilot, *"1.3", "enter")
        pilot.app.screen.query_one("#exact Input").focus()
        await press(pilot, *"x", "enter")
        assert pilot.app.screen.query_one("#exact", Entry).has_class("-wrong")
        await press(pilot, "escape")
        pilot.app.screen.query_one("#length").focus()
        await press(pilot, "a")

    drive(script, place="rope")
    arms = list(dict.fromkeys(request.arm for request in backend.asked))
    assert arms == ["auto", "yarn:4.5", "yarn:2.25", "yarn:1", "yarn:1.3"]
    assert backend.asked[-1].arm == "auto"


def test_pairs_are_a_table_too(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> str:
        await press(pilot, "p")
        assert not pilot.app.screen.query_one("#plot-panel").display
        return words(pilot, "#pairs")

    lines = drive(script, place="rope", size=SMALL).splitlines()
    assert lines[1].split() == ["0", "1", "6.3", "1", "6.3", "1.0000"]
    assert lines[-1].split()[-1] == "0.2500"  # the slowest pair turns at a quarter of its rate


def test_blocks_are_copied(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await press(pilot, "y")
        assert pilot.app.clipboard == '{"max_position_embeddings": 131072}'
        blocks = pilot.app.screen.query_one("#blocks", RecordList)
        blocks.focus()
        pilot.app.copy_to_clipboard("")
        await press(pilot, "home", "enter")
        assert pilot.app.clipboard == '{"max_position_embeddings": 131072}'

    drive(script, place="rope")


def test_a_model_without_rotary_positions_says_so(drive: Drive, backend: FakeBackend) -> None:
    backend.problem = UsageError("this model has no rotary positions (learned)")

    async def script(pilot: Pilot[None]) -> None:
        assert words(pilot, "#decision") == "✗ this model has no rotary positions (learned)"
        assert str(pilot.app.screen.query_one(Plot).render()) == ""

    drive(script, place="rope")
