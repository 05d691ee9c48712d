"""``ropewalk attend``: the page, the record, the file, and what ends it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Invoke
from tests.lab import tiny

from ropewalk.jsonio import loads
from ropewalk.lab.records import Attention, Kernels

IDS = ",".join(map(str, tiny.TOKENS))


@pytest.fixture
def llama(tmp_path: Path) -> str:
    pytest.importorskip("torch")
    return str(tiny.write(tmp_path / "tiny-llama", tiny.LLAMA))


def test_without_torch_the_extra_is_named(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    outcome = invoke("attend", "model", "--tokens", "1", "--json")
    assert outcome.status == 4
    assert json.loads(outcome.out)["code"] == "extra_missing"
    assert 'pip install "ropewalk[lab]"' in outcome.err


@pytest.mark.extra
def test_the_page_shows_numbers_and_picture(llama: str, invoke: Invoke) -> None:
    outcome = invoke("attend", llama, "--tokens", IDS, "--layer", "1", "--head", "3")
    assert outcome.status == 0
    assert "tiny-llama · layer 1, head 3 · reads KV head 1 (3 // 2)" in outcome.out
    assert "  0.001  0.013  0.772  0.169  0.010  0.035\n" in outcome.out
    assert "5 5                  ██░░" in outcome.out
    assert "0 3              ██· · · · ·" in outcome.out
    assert "✗" not in outcome.out


@pytest.mark.extra
def test_the_record_comes_back(llama: str, invoke: Invoke) -> None:
    outcome = invoke("attend", llama, "--tokens", IDS, "--head", "2", "--json")
    seen = loads(Attention, outcome.out)
    assert seen.schema == "ropewalk.attention/1"
    assert (seen.head, seen.kv_head) == (2, 1)
    assert seen.squares is not None
    assert [sum(row) for row in seen.squares.weights] == pytest.approx([1.0] * 6)


@pytest.mark.extra
def test_the_pictures_go_into_one_file(llama: str, invoke: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "head.html"
    outcome = invoke("attend", llama, "--tokens", IDS, "--layer", "1", "--head", "3", "--html", str(file))
    assert outcome.status == 0
    page = file.read_text(encoding="utf-8")
    assert page.count("<svg") == 3
    assert "<title>5 sees 15: 0.7722</title>" in page
    assert page.count('class="hit"') == 3 * 21  # the cells of the triangle, masked ones are not drawn


@pytest.mark.extra
def test_a_square_that_does_not_fit_is_a_verdict(llama: str, invoke: Invoke) -> None:
    outcome = invoke("attend", llama, "--tokens", IDS, "--memory", "1KiB", "--json")
    assert outcome.status == 1
    assert json.loads(outcome.out)["code"] == "does_not_fit"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "give --prompt or --tokens"),
        (["--prompt", "a", "--tokens", "1"], "give --prompt or --tokens"),
        (["--tokens", "1", "--up-to", "4k"], "belong to --kernels"),
        (["--kernels", "--tokens", "1"], "give no prompt"),
    ],
)
@pytest.mark.extra
def test_options_that_exclude_each_other(given: list[str], told: str, llama: str, invoke: Invoke) -> None:
    outcome = invoke("attend", llama, *given)
    assert outcome.status == 2
    assert told in outcome.err


@pytest.mark.extra
def test_kernels_are_a_table(llama: str, invoke: Invoke) -> None:
    outcome = invoke("attend", llama, "--kernels", "--up-to", "512", "--device", "cpu")
    assert outcome.status == 0
    assert "4 query heads, 2 KV heads of 8 · cpu, float32" in outcome.out
    rows = [line.split() for line in outcome.out.splitlines() if re.match(r"\s*\d+ .* MiB ", line)]
    assert [row[0] for row in rows] == ["256", "512"]
    record = loads(
        Kernels, invoke("attend", llama, "--kernels", "--up-to", "16", "--device", "cpu", "--json").out
    )
    assert record.points[0].square_bytes == 4 * 16**2 * 4
