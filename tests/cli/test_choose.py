"""``ropewalk choose``: the page, the record, the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Invoke
from tests.serving.dry_run.models import FAMILIES


def folder_of(path: Path) -> str:
    for family in ("llama", "qwen3moe"):
        FAMILIES[family](path / f"{family}.gguf")
    return str(path)


def test_the_page_ends_with_the_command_of_the_first(tmp_path: Path, invoke: Invoke) -> None:
    outcome = invoke("choose", folder_of(tmp_path), "--context", "4k", "--memory", "1GiB")
    assert outcome.status == 0
    assert "8 of 8 candidates hold 4,096 tokens" in outcome.out
    assert "-fit off -ngl 999" in outcome.out


def test_the_record_is_ranked(tmp_path: Path, invoke: Invoke) -> None:
    outcome = invoke("choose", folder_of(tmp_path), "--context", "max", "--memory", "1GiB", "--json")
    record = json.loads(outcome.out)
    assert outcome.status == 0
    assert record["schema"] == "ropewalk.choice/1"
    assert record["options"][0]["context_len"] == 32768
    assert record["command"].startswith("llama-server")


def test_this_machine_and_what_each_step_would_save(tmp_path: Path, invoke: Invoke) -> None:
    outcome = invoke("choose", folder_of(tmp_path), "--context", "4k", "--explain")
    assert outcome.status == 0
    assert "8 of 8 candidates hold 4,096 tokens on this machine" in outcome.out
    assert "a smaller cache type" in outcome.out
    assert "here: ropewalk serve" in outcome.out


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("choose", "{folder}", "--context", "4k", "--gpu", "RTX 9999"), 2, "nearest: RTX-"),
        (("choose", "{folder}", "--context", "4k", "--memory", "12"), 2, "12 bytes of memory hold no model"),
        (("choose", "{folder}/none", "--context", "4k", "--memory", "1GiB"), 3, "no such file or folder"),
        (("choose", "{empty}", "--context", "4k", "--memory", "1GiB"), 3, "holds no checkpoint"),
        (
            ("choose", "{folder}", "--context", "4k", "--memory", "1GiB", "--engine", "vllm"),
            2,
            "reads any of",
        ),
    ],
)
def test_bad_input(words: tuple[str, ...], status: int, said: str, tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "empty").mkdir()
    places = {"folder": folder_of(tmp_path / "models"), "empty": tmp_path / "empty"}
    outcome = invoke(*(word.format(**places) for word in words))
    assert outcome.status == status
    assert said in outcome.err


def test_where_nothing_fits_it_ends_with_1_and_the_nearest(tmp_path: Path, invoke: Invoke) -> None:
    outcome = invoke("choose", folder_of(tmp_path), "--context", "32k", "--memory", "64MiB", "--explain")
    assert outcome.status == 1
    assert "0 of 8 candidates" in outcome.out
    assert "does not fit" in outcome.out
