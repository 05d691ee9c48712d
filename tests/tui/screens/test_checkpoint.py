"""The checkpoint screen: every key, the way from findings to what they are about, tables of any size."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.conftest import SMALL, Drive, press, settle
from tests.tui.doubles import FakeBackend, table_of
from textual.content import Content
from textual.events import MouseScrollDown
from textual.pilot import Pilot
from textual.widgets import Input, Static

from ropewalk.findings import Finding
from ropewalk.inspector.tensors import Tensor, TensorTable
from ropewalk.tui.screens.checkpoint import CheckpointScreen
from ropewalk.tui.screens.modal import Modal
from ropewalk.tui.widgets.layer_strip import LayerStrip
from ropewalk.tui.widgets.module_tree import ModuleTree
from ropewalk.tui.widgets.record_list import RecordList
from ropewalk.tui.widgets.tensor_list import TensorList


def listed(pilot: Pilot[None]) -> list[str]:
    """The names of the tensors that are listed, in order."""
    table = pilot.app.screen.query_one(TensorList)
    return [table._table.names[row] for row in table.rows]


def line(pilot: Pilot[None], y: int) -> str:
    """A line of the table as it is drawn."""
    return pilot.app.screen.query_one(TensorList).render_line(y).text


def words(pilot: Pilot[None], selector: str) -> str:
    """The text of a part of the screen."""
    return str(pilot.app.screen.query_one(selector, Static).content)


def test_everything_is_listed_with_its_facts(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        assert len(listed(pilot)) == 399
        assert line(pilot, 0).split() == ["name", "shape", "params", "bytes"]
        assert line(pilot, 1).split()[3:6] == ["622", "M", "1.16"]
        assert "36 full" in str(pilot.app.screen.query_one(LayerStrip).content)
        assert pilot.app.screen.query_one("#middle").border_subtitle == "399 of 399"
        tree = pilot.app.screen.query_one(ModuleTree)
        assert [str(node.label) for node in tree.root.children] == ["lm_head", "model"]
        assert words(pilot, "#source") == "config: config.json: architecture"

    drive(script)


def test_the_filter_works_as_one_types_and_escape_takes_it_back(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await press(pilot, "slash", *"q_proj")
        assert len(listed(pilot)) == 36
        await press(pilot, "space", *".7.")
        assert listed(pilot) == ["model.layers.7.self_attn.q_proj.weight"]
        await press(pilot, "enter")
        assert pilot.app.focused is pilot.app.screen.query_one(TensorList)
        await press(pilot, "escape")
        assert len(listed(pilot)) == 399
        assert pilot.app.screen.query_one("#filter", Input).value == ""

    drive(script)


def test_sorting_by_key_and_by_heading(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await press(pilot, "s")
        assert listed(pilot)[0] == "lm_head.weight"
        assert "name ▲" in line(pilot, 0)
        await press(pilot, "r")
        assert listed(pilot)[0] == "model.norm.weight"
        await pilot.click(TensorList, offset=(30, 0))
        await settle(pilot)
        assert "shape ▲" in line(pilot, 0)
        for _ in range(2):
            await press(pilot, "s")
        assert pilot.app.screen.query_one("#middle").border_subtitle == "399 of 399 by bytes"
        assert listed(pilot)[0] == "lm_head.weight"  # the largest first

    drive(script)


def test_a_module_lists_its_own_tensors_with_short_names(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        pilot.app.screen.query_one(ModuleTree).focus()
        await press(pilot, "down", "down", "down", "down")
        assert str(pilot.app.screen.query_one("#middle").border_title) == (
            "Tensors of model.layers.0 (36 alike)"
        )
        assert len(listed(pilot)) == 11
        assert line(pilot, 2).split()[:2] == ["mlp.down_proj", "[4096,"]
        await press(pilot, "enter", "down", "down")
        assert str(pilot.app.screen.query_one("#middle").border_title) == "Tensors of model.layers.0.mlp"
        await press(pilot, "up", "up", "enter")
        assert len(pilot.app.screen.query_one(ModuleTree).cursor_node.children) == 4  # type: ignore[union-attr]

    drive(script)


def test_a_tensor_opens_with_all_its_figures(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> str:
        await press(pilot, "down", "enter")
        assert isinstance(pilot.app.screen, Modal)
        text = words(pilot, "Modal Static")
        await press(pilot, "c", "escape")
        assert pilot.app.clipboard == "model.embed_tokens.weight"
        return text

    assert drive(script).splitlines() == [
        "name      model.embed_tokens.weight",
        "dtype     BF16",
        "shape     151936 x 4096",
        "elements  622,329,856",
        "bytes     1,244,659,712 (1.16 GiB)",
        "file      model-00001-of-00005.safetensors",
        "offset    1,244,659,712 in the data section",
    ]


def test_facts_show_where_they_come_from(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> str:
        assert not pilot.app.screen.query_one("#side").display
        await press(pilot, "f")
        assert pilot.app.screen.query_one("#side").display
        facts = pilot.app.screen.query_one("#facts", RecordList)
        facts.go_to("num_key_value_heads")
        await press(pilot)
        assert words(pilot, "#source") == "tensor: k_proj.weight [1024, 4096] / head_dim"
        await press(pilot, "enter")
        return words(pilot, "Modal Static")

    text = drive(script, size=SMALL)
    assert text.splitlines() == [
        "value     8", "source    tensor", "read from k_proj.weight [1024, 4096] / head_dim",
    ]  # fmt: skip


def test_a_finding_comes_first_and_leads_to_its_fact(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> str:
        findings = pilot.app.screen.query_one("#findings", RecordList)
        assert findings.display
        assert [finding.severity for finding in findings.records] == ["error", "warning"]
        findings.focus()
        await press(pilot, "down", "home", "enter")
        assert pilot.app.screen_stack[0].query_one("#facts", RecordList).record() == "num_key_value_heads"
        return words(pilot, "Modal Static")

    text = drive(script, source="models/lying")
    assert "✗ config_tensor_mismatch  num_key_value_heads: config.json says 4, the tensors say 8" in text
    assert "tensor  8" in text


def test_a_finding_leads_to_its_tensor(drive: Drive) -> None:
    cut = Finding("truncated_payload", "error", "cut off", {"tensor": "model.layers.3.mlp.up_proj.weight"})

    async def script(pilot: Pilot[None]) -> None:
        await press(pilot, "slash", *"norm")
        screen = pilot.app.screen
        screen.query_one("#findings", RecordList).show([(cut, Content("cut"))])
        screen.query_one("#findings", RecordList).display = True
        screen.query_one("#findings", RecordList).focus()
        await press(pilot, "home", "enter", "escape")
        tensor = screen.query_one(TensorList).chosen()
        assert tensor is not None
        assert tensor.name == "model.layers.3.mlp.up_proj.weight"
        assert len(listed(pilot)) == 399

    drive(script)


def test_what_if_prices_other_numbers_of_heads(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> str:
        await press(pilot, "w")
        text = words(pilot, "WhatIfSheet #page")
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, CheckpointScreen)
        return text

    lines = drive(script).splitlines()
    assert lines[0].split() == ["KV", "heads", "B", "per", "token", "32,768", "tokens"]
    assert lines[1].split()[:4] == ["1", "18,432", "576.00", "MiB"]
    assert lines[4].split()[:4] == ["8", "147,456", "4.50", "GiB"]  # QwenLM/Qwen3-8B at 32,768, bf16
    assert lines[4].endswith("this model")


def test_copy_and_export_never_over_another_file(drive: Drive, tmp_path: Path) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await press(pilot, "c")
        assert pilot.app.clipboard == "lm_head.weight"
        await press(pilot, "slash", *"norm", "enter", "e", "e")

    drive(script)
    text = (tmp_path / "Qwen3-8B-tensors.csv").read_text().splitlines()
    assert text[0] == "name,dtype,shape,elements,bytes,file,offset"
    assert len(text) == 1 + 36 * 4 + 1
    assert text[-1].startswith("model.norm.weight,BF16,4096,4096,8192,")
    assert (tmp_path / "Qwen3-8B-tensors-2.csv").is_file()


def test_the_mouse_chooses_scrolls_and_opens(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        table = pilot.app.screen.query_one(TensorList)
        await pilot.click(TensorList, offset=(3, 4))
        assert table.cursor == 3
        table.post_message(MouseScrollDown(table, 3, 3, 0, 1, 0, False, False, False))
        await settle(pilot)
        assert "self_attn.k_norm" not in line(pilot, 1)
        assert "mlp.down_proj" in line(pilot, 1)
        await pilot.click(TensorList, offset=(3, 1), times=2)
        await settle(pilot)
        assert isinstance(pilot.app.screen, Modal)

    drive(script)


def test_of_a_hundred_thousand_rows_only_those_in_sight_are_made(
    drive: Drive, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.tables["models/big"] = table_of([(f"t.{n}.weight", "BF16", (2,), 4) for n in range(100_000)])
    made: list[int] = []
    row = TensorTable.row

    def counted(self: TensorTable, index: int) -> Tensor:
        made.append(index)
        return row(self, index)

    async def script(pilot: Pilot[None]) -> None:
        monkeypatch.setattr(TensorTable, "row", counted)
        await press(pilot, "G")
        table = pilot.app.screen.query_one(TensorList)
        assert table.cursor == 99_999
        assert line(pilot, table.size.height - 1).startswith("t.99999 ")
        await press(pilot, "pageup", "g")
        assert table.cursor == 0

    drive(script, source="models/big")
    assert len(made) < 300


def test_names_are_text_whatever_they_hold(drive: Drive, backend: FakeBackend) -> None:
    names = ("a.\x1b[31mred\x1b[0m.w", "a.[bold]x[/bold].w", "a.[/nonsense].w", "a.模型.w")
    backend.tables["models/odd"] = table_of([(name, "BF16", (2,), 4) for name in names])

    async def script(pilot: Pilot[None]) -> list[str]:
        return [line(pilot, y).split()[0] for y in range(1, 5)]

    assert drive(script, source="models/odd") == [
        "a.·[31mred·[0m.w", "a.[bold]x[/bold].w", "a.[/nonsense].w", "a.模型.w",
    ]  # fmt: skip


def test_a_checkpoint_without_tensors_is_shown_all_the_same(drive: Drive, backend: FakeBackend) -> None:
    backend.tables["models/config.json"] = TensorTable()

    async def script(pilot: Pilot[None]) -> None:
        assert pilot.app.screen.query_one("#middle").border_subtitle == "0 of 0"
        await press(pilot, "down", "enter", "s", "c", "end")
        assert pilot.app.screen.query_one(TensorList).chosen() is None

    drive(script, source="models/config.json")
