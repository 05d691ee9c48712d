"""The plan screen: wishes by slider, number and choice; the verdict, the figures and the command."""

from __future__ import annotations

from typing import Any

from tests.report.render import render
from tests.tui.conftest import SMALL, Drive, press, settle
from tests.tui.doubles import FakeBackend
from textual.pilot import Pilot
from textual.widgets import Static

from ropewalk.errors import UsageError
from ropewalk.tui.app import RopewalkApp
from ropewalk.tui.screens.serve import ServeScreen
from ropewalk.tui.widgets.choice import Choice
from ropewalk.tui.widgets.mask import MaskPicture
from ropewalk.tui.widgets.memory_bar import MemoryBar
from ropewalk.tui.widgets.panel_tabs import PanelTabs
from ropewalk.tui.widgets.record_list import RecordList
from ropewalk.tui.widgets.slider import LogSlider
from ropewalk.tui.widgets.work_bar import WorkBar
from ropewalk.units import GIB


def words(pilot: Pilot[None], selector: str) -> str:
    """The text of a part of the screen."""
    return str(pilot.app.screen.query_one(selector, Static).content)


def drawn(pilot: Pilot[None], widget: type[MemoryBar | WorkBar | MaskPicture | LogSlider]) -> list[str]:
    """The lines of a widget that draws itself."""
    return str(pilot.app.screen.query_one(widget).render()).splitlines()


def shows(pilot: Pilot[None], selector: str) -> bool:
    """Whether a part is there to be seen."""
    return bool(pilot.app.screen.query_one(selector).display)


def shown(pilot: Pilot[None], selector: str) -> list[str]:
    """The lines of a part that shows what the pages show, too."""
    page: Any = pilot.app.screen.query_one(selector, Static).content
    return render(page.block).splitlines()


async def choose(pilot: Pilot[None], name: str, key: str = "right") -> None:
    """Press a key on one of the choices."""
    pilot.app.screen.query_one(f"#{name}", Choice).focus()
    await press(pilot, key)


def test_the_first_plan_is_for_the_trained_context_on_the_first_device(
    drive: Drive, backend: FakeBackend
) -> None:
    async def script(pilot: Pilot[None]) -> None:
        assert words(pilot, "#verdict").startswith("✓ FITS  32,768 tokens x 1 sequence on a GPU of 48.00 GiB")
        assert [line.split()[:3] for line in drawn(pilot, WorkBar)[2:4]] == [
            ["crossover", "47,104", "tokens:"], ["scores", "1.00", "TiB"],
        ]  # fmt: skip

    drive(script, place="plan")
    first = backend.asked[0]
    assert (first.context_len, first.engine, first.device, first.memory_bytes) == (
        32768, "vllm", "cuda:0", 48 * GIB,
    )  # fmt: skip


def test_the_slider_asks_for_every_length_that_it_passes(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await press(pilot, "right", "left", "shift+right", "m", "m", "end", "home")

    drive(script, place="plan")
    lengths = [request.context_len for request in backend.asked]
    # an eighth of a doubling and back, double, then exactly the marks: published 131,072, fits 188,416
    assert list(dict.fromkeys(lengths)) == [32768, 35840, 65536, 131072, 188416, 1048576, 1024]


def test_marks_and_the_limit_are_on_the_slider(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        track, names = drawn(pilot, LogSlider)
        assert track.startswith("   1k ━")
        assert track.endswith("╌ 1M")
        assert track.index("╌") > track.index("╂") > track.index("┴") > track.index("×") > track.index("●")
        assert names.index("fits 188,416") == track.index("╂") + 2
        assert "┬ trained 32,768" in names

    drive(script, place="plan")


def test_a_number_may_be_typed(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await press(pilot, "x", *"64k", "enter")
        assert words(pilot, "#verdict").startswith("✓ FITS  65,536 tokens")
        assert pilot.app.focused is pilot.app.screen.query_one("#engine")  # the screen's keys work again
        await press(pilot, "x", *"many", "enter")
        assert pilot.app.screen.query_one("#context").has_class("-wrong")

    drive(script, place="plan")
    assert backend.asked[-1].context_len == 65536


def test_every_choice_changes_the_request(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await choose(pilot, "cache")
        await choose(pilot, "sequences")
        await choose(pilot, "parallel", "space")
        await choose(pilot, "unvalidated", "enter")
        await choose(pilot, "device")
        await choose(pilot, "engine")

    drive(script, place="plan")
    asked = backend.asked[1:]
    assert [request.cache_type_k for request in asked] == ["fp8"] * 5 + ["auto"]
    assert asked[1].num_sequences == 2
    assert asked[2].tensor_parallel == 2
    assert asked[3].allow_unvalidated
    assert (asked[4].device, asked[4].memory_bytes) == ("cpu", 64 * GIB)
    assert asked[5].engine == "llama-server"


def test_several_ranks_are_bars_by_node(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        tabs = pilot.app.screen.query_one(PanelTabs)
        assert "Ranks" not in str(tabs.render())
        await choose(pilot, "stages")
        assert "Ranks" in str(tabs.render())
        assert shown(pilot, "#ranks")[0].startswith("gpu:0 ██")
        assert "gpu:1" in shown(pilot, "#ranks")[0]
        await choose(pilot, "nodes")
        first, second = shown(pilot, "#ranks")[:2]
        assert first.startswith("node 0  gpu:0")
        assert second.startswith("node 1  gpu:1")
        assert drawn(pilot, MemoryBar)[1].endswith("of 96.00 GiB")

    drive(script, place="plan")
    assert (backend.asked[-1].pipeline_parallel, backend.asked[-1].nodes) == (2, 2)


def test_a_plan_that_does_not_fit_says_so_first(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await press(pilot, "x", *"256k", "enter")
        assert words(pilot, "#verdict").startswith("✗ DOES NOT FIT  262,144 tokens")
        codes = [finding.code for finding in pilot.app.screen.query_one("#findings", RecordList).records]
        assert codes == ["does_not_fit", "short_text_degradation"]
        assert await panels(pilot) == ["ways-panel"]
        await press(pilot, "right_square_bracket")
        bar = drawn(pilot, MemoryBar)[0]
        assert "┃" in bar
        assert bar.index("┃") < len(bar.rstrip("·")) - 1  # what is needed reaches beyond the device

    drive(script, place="plan", size=SMALL)


def test_a_refused_length_has_no_command(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await press(pilot, "end")
        assert words(pilot, "#verdict").startswith("✗ REFUSED")
        assert words(pilot, "#command") == "none: this plan cannot be served"
        assert "learned positions end at 1,024" in words(pilot, "#rope")
        await press(pilot, "y")
        assert pilot.app.clipboard == ""

    drive(script, place="plan")


def test_without_a_budget_nothing_is_judged(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        pilot.app.screen.query_one("#memory Input").focus()
        await press(pilot, "backspace", "enter")
        assert words(pilot, "#verdict").startswith("? NEEDS")
        assert "give a memory" in words(pilot, "#reach")

    drive(script, place="plan")
    assert backend.asked[-1].memory_bytes is None


def test_what_fits_is_a_table_of_types_and_sequences(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> str:
        return words(pilot, "#reach")

    assert [line.split() for line in drive(script, place="plan").splitlines()] == [
        ["1", "x", "2", "x", "4", "x", "8", "x"],
        ["auto", "188,416", "94,208", "47,104", "23,552"],
        ["fp8", "376,832", "188,416", "94,208", "–"],
    ]


def test_scores_are_struck_out_unless_they_are_held(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        scores = pilot.app.screen.query_one(WorkBar).render().split("\n")[3]
        assert any(span.style == "strike" for span in scores.spans)
        for _ in range(2):  # the last but one: transformers
            await choose(pilot, "engine", "left")
        scores = pilot.app.screen.query_one(WorkBar).render().split("\n")[3]
        assert not any(span.style == "strike" for span in scores.spans)
        assert "held: this attention is eager" in scores.plain

    drive(script, place="plan")


def test_the_source_of_a_term_is_one_key_away(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        assert words(pilot, "#source") == "sum of the tensors"
        pilot.app.screen.query_one("#terms").focus()
        await press(pilot, "down")
        assert words(pilot, "#source") == "vLLM 0.33.0 kv_cache_interface"
        assert str(pilot.app.screen.query_one("#memory-panel").border_subtitle) == (
            "needs 18.00 GiB of cache, 18.00 GiB reserved"
        )

    drive(script, place="plan")


def test_masks_are_pictures_with_their_counts(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> list[str]:
        await press(pilot, *["right_square_bracket"] * 4)
        return drawn(pilot, MaskPicture)

    lines = drive(script, place="plan", size=(200, 60))
    assert lines[0].split("  ")[0].strip() == "causal"
    assert "window 1,024" in lines[0]
    assert "25% padding" in lines[0]
    assert lines[1].startswith("█▄          ")
    assert lines[6].startswith("█" * 11 + "▄")
    assert lines[7].split() == ["8,590,000,128", "133,694,976", "4,831,887,360"]


def test_the_command_is_copied_on_one_line_and_launched(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await press(pilot, "y")
        assert pilot.app.clipboard.startswith("vllm serve models/Qwen3-8B --max-model-len 131072")
        assert "\n" not in pilot.app.clipboard
        assert (
            words(pilot, "#command").splitlines()[-1] == "worked out, not run, from the rules of vllm 0.33.0"
        )
        await press(pilot, "l")
        assert isinstance(pilot.app.screen, ServeScreen)

    drive(script, place="plan")


def test_what_cannot_be_planned_says_why(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        backend.problem = UsageError("9 query heads cannot be divided by 2")
        await choose(pilot, "parallel")
        assert words(pilot, "#verdict") == "✗ no plan  9 query heads cannot be divided by 2"
        backend.problem = None
        await choose(pilot, "parallel", "left")
        assert words(pilot, "#verdict").startswith("✓ FITS")

    drive(script, place="plan")


def test_an_answer_that_nobody_waits_for_any_more_is_not_shown(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, RopewalkApp)
        late = app.desk
        app.ask(context_len=65536)
        await settle(pilot)
        app._planned(late)
        assert app.desk.request is not None
        assert app.desk.request.context_len == 65536

    drive(script, place="plan")


def test_nothing_is_open(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        pilot.app.screen.query_one("#entries").focus()
        await press(pilot, "3")
        assert pilot.app.screen.query_one("#nothing").display
        assert not pilot.app.screen.query_one("#panels").display

    drive(script, source=None)


async def panels(pilot: Pilot[None]) -> list[str]:
    """The panels that can be seen."""
    named = pilot.app.screen.query("#panels Panel, #panels ScrollPanel")
    return [panel.id or "" for panel in named if panel.region.area and panel.is_on_screen]


def test_every_panel_is_reached_by_keyboard_where_there_is_room_for_one(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        seen = [await panels(pilot)]
        for _ in range(5):
            await press(pilot, "right_square_bracket")
            seen.append(await panels(pilot))
        assert seen == [[f"{name}-panel"] for name in ("memory", "fits", "rope", "work", "mask", "command")]
        await press(pilot, "left_square_bracket", "z")
        assert await panels(pilot) == ["mask-panel"]
        assert not shows(pilot, "#wishes")
        await press(pilot, "z")
        assert shows(pilot, "#wishes")
        pilot.app.screen.query_one(PanelTabs).focus()
        await press(pilot, "right")
        assert str(pilot.app.screen.query_one(PanelTabs).render()).endswith("[Command]")

    drive(script, place="plan", size=SMALL)


def test_the_command_stays_in_sight_beside_the_other_panels(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        assert await panels(pilot) == ["memory-panel", "fits-panel", "command-panel"]
        await press(pilot, "x", *"256k", "enter")
        assert await panels(pilot) == ["memory-panel", "ways-panel", "command-panel"]
        assert shown(pilot, "#ways")[1].split()[:3] == ["more", "devices", "--tensor-parallel"]
        await press(pilot, "z")
        assert await panels(pilot) == ["ways-panel"]

    drive(script, place="plan")
