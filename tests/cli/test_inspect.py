"""``inspect``, ``tensors``: what goes where, and the exit status of a lying config."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli import records
from tests.cli.conftest import Invoke
from tests.inspector.readers.files import GgufWriter

from ropewalk import core
from ropewalk.inspector.records import Checkpoint, Inspection
from ropewalk.inspector.tensors import TensorTable


def answer(monkeypatch: pytest.MonkeyPatch, inspection: Inspection) -> None:
    monkeypatch.setattr(core, "inspect", lambda source: inspection)


def test_a_folder_with_several_checkpoints_is_listed(invoke: Invoke, tmp_path: Path) -> None:
    for name in ("m-Q4_0.gguf", "m-Q8_0.gguf"):
        writer = GgufWriter().key("general.architecture", "string", "llama")
        writer.key("llama.block_count", "uint32", 1).write(tmp_path / name)
    result = invoke("inspect", str(tmp_path), "--json")
    record = json.loads(result.out)
    assert (result.status, record["schema"]) == (0, "ropewalk.checkpoints/1")
    assert [one["name"] for one in record["checkpoints"]] == ["m-Q4_0.gguf", "m-Q8_0.gguf"]


def test_the_page_and_the_record(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, records.qwen3_8b())
    page = invoke("inspect", "Qwen3-8B")
    assert page.status == 0
    assert "8.19 B parameters · BF16 · 15.26 GiB in 5 files" in page.out
    record = invoke("inspect", "Qwen3-8B", "--json")
    assert record.status == 0
    data = json.loads(record.out)
    assert data["schema"] == "ropewalk.inspection/1"
    assert data["checkpoint"]["tensor_bytes"] == 16381470720
    assert data["facts"]["rope_scaling"]["value"] is None
    assert data["layers"][0]["indices"][-1] == 35


@pytest.mark.parametrize("option", [(), ("--json",), ("--facts",)])
def test_a_finding_of_severity_error_exits_with_1(
    option: tuple[str, ...], invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, records.lying())
    assert invoke("inspect", "Qwen3-8B", *option).status == 1


def test_a_warning_alone_exits_with_0(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    warned = replace(records.lying(), findings=records.lying().findings[:1])
    answer(monkeypatch, warned)
    assert invoke("inspect", "Qwen3-8B").status == 0


def test_facts_name_their_source(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, records.qwen3_8b())
    lines = invoke("inspect", "Qwen3-8B", "--facts").out.splitlines()
    assert any(line.split()[:3] == ["num_key_value_heads", "8", "tensor"] for line in lines)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    """Two layers that are alike and one that is not."""
    table = TensorTable()
    file = table.add_file("model.safetensors")
    for name, shape in (
        ("model.embed_tokens.weight", (100, 8)),
        ("model.layers.0.q.weight", (8, 8)),
        ("model.layers.0.k.weight", (4, 8)),
        ("model.layers.1.q.weight", (8, 8)),
        ("model.layers.1.k.weight", (4, 8)),
        ("model.layers.2.q.weight", (16, 8)),
    ):
        table.append(name, "BF16", shape, shape[0] * shape[1] * 2, file, table.total_bytes)
    checkpoint = Checkpoint("tiny", Path("tiny"), "safetensors", (), table)
    monkeypatch.setattr(core, "open_checkpoint", lambda source: checkpoint)
    return checkpoint


def test_identical_blocks_share_a_row_and_others_do_not(opened: Checkpoint, invoke: Invoke) -> None:
    outcome = invoke("tensors", "tiny")
    assert outcome.status == 0
    rows = [line.split() for line in outcome.out.splitlines()]
    assert ["model.layers.[0,1]"] in rows
    assert [".q.weight", "BF16", "[8,", "8]", "2", "256", "B"] in rows
    assert ["model.layers.2"] in rows
    assert [".q.weight", "BF16", "[16,", "8]", "1", "256", "B"] in rows
    assert "6 tensors" in rows[0][1] + " " + rows[0][2]


def test_codes_in_a_name_do_not_reach_the_terminal(
    opened: Checkpoint, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    opened.tensors.append("evil\x1b]0;owned\x07\x9b31m\u202e.weight", "BF16", (1,), 2, 0, 9999)
    out = invoke("tensors", "tiny").out
    assert "evil\N{REPLACEMENT CHARACTER}]0;owned" in out
    assert "\x1b]" not in out
    assert not {"\x07", "\x9b", "\u202e"} & set(out)
    # In JSON every byte is there, and escaped.
    assert json.loads(invoke("tensors", "tiny", "--json").out)["tensors"][-1]["name"].startswith("evil\x1b")


def test_a_pattern_chooses_and_says_of_how_many(opened: Checkpoint, invoke: Invoke) -> None:
    outcome = invoke("tensors", "tiny", "--match", "*.k.weight", "--unfold")
    assert "2 of 6 tensors" in outcome.out
    assert "model.layers.1.k.weight" in outcome.out
    nothing = invoke("tensors", "tiny", "--match", "K")
    assert nothing.status == 1
    assert "no tensor matches 'K'" in nothing.err


def test_sorted_by_size_the_largest_is_first(opened: Checkpoint, invoke: Invoke) -> None:
    lines = invoke("tensors", "tiny", "--sort", "size").out.splitlines()
    assert lines[2].split()[0] == "model.embed_tokens.weight"
    names = [line.split()[0] for line in invoke("tensors", "tiny", "--sort", "name").out.splitlines()[2:]]
    assert names == sorted(names)


def test_every_tensor_as_json_and_as_csv(opened: Checkpoint, invoke: Invoke) -> None:
    data = json.loads(invoke("tensors", "tiny", "--json").out)
    assert data["num_tensors"] == len(data["tensors"]) == 6
    assert data["tensor_bytes"] == opened.tensors.total_bytes
    assert data["tensors"][1] == {
        "name": "model.layers.0.q.weight",
        "dtype": "BF16",
        "shape": [8, 8],
        "nbytes": 128,
        "file": "model.safetensors",
        "offset": 1600,
    }
    rows = list(csv.DictReader(io.StringIO(invoke("tensors", "tiny", "--csv").out)))
    assert rows[-1]["shape"] == "16x8"
    assert sum(int(row["bytes"]) for row in rows) == opened.tensors.total_bytes


def test_csv_and_json_exclude_each_other(opened: Checkpoint, invoke: Invoke) -> None:
    assert invoke("tensors", "tiny", "--csv", "--json").status == 2
