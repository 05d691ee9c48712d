"""``check``: the words after ``--`` are the engine's, the verdict is the status, the repair is pasteable."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from tests.cli import records
from tests.cli.conftest import Invoke
from tests.patching import patch_core

from ropewalk.errors import HubError
from ropewalk.inspector.records import Inspection

REMOVED = ("vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "131072", "--rope-scaling", '{"factor":4.0}')


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def inspect(source: str) -> Inspection:
        raise HubError(f"the Hub did not answer for {source}")

    patch_core(monkeypatch, "inspect", inspect)


def test_a_removed_flag_is_wrong_and_says_what_to_do(invoke: Invoke) -> None:
    outcome = invoke("check", "--", *REMOVED)
    assert outcome.status == 1
    assert outcome.out.startswith("WRONG\n")
    assert "✗ removed_flag" in outcome.out
    assert "→ " in outcome.out
    assert "add --checkpoint to check lengths and memory" in outcome.out


def test_the_record(invoke: Invoke) -> None:
    outcome = invoke("check", "--json", "--", *REMOVED)
    data = json.loads(outcome.out)
    assert (outcome.status, data["schema"], data["ok"]) == (1, "ropewalk.check/1", False)
    assert data["parsed"]["--max-model-len"] == 131072


@pytest.mark.parametrize("words", [("--",), ()])
def test_a_command_that_is_right(
    words: tuple[str, ...], invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "32768")
    outcome = invoke("check", *words, *command)
    assert outcome.status == 3
    assert outcome.out.startswith("NOT JUDGED: model and memory\n")
    assert "add --checkpoint" in outcome.out
    patch_core(monkeypatch, "inspect", lambda source: records.qwen3_8b())
    unknown = invoke("check", *words, *command)
    assert (unknown.status, unknown.out.partition("\n")[0]) == (3, "NOT JUDGED: memory")
    outcome = invoke("check", "--memory", "80GiB", *words, *command)
    assert outcome.status == 0
    assert outcome.out.startswith("OK\n")
    assert "corrected" not in outcome.out


def test_with_the_checkpoint_the_corrected_command_is_complete(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def inspect(source: str) -> Inspection:
        asked.append(source)
        return records.qwen3_8b()

    patch_core(monkeypatch, "inspect", inspect)
    outcome = invoke("check", "--checkpoint", "models/Qwen3-8B", "--", *REMOVED)
    assert asked == ["models/Qwen3-8B"]
    command = outcome.out[outcome.out.index("vllm serve ") :].replace("\\\n", "")
    words = shlex.split(command)
    assert words[:3] == ["vllm", "serve", "Qwen/Qwen3-8B"]
    assert "--rope-scaling" not in words


def test_the_model_of_the_command_is_inspected(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def inspect(source: str) -> Inspection:
        asked.append(source)
        return records.qwen3_8b()

    patch_core(monkeypatch, "inspect", inspect)
    invoke("check", "--", "vllm", "serve", str(tmp_path), "--max-model-len", "32768")
    invoke("check", "--", "vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "32768")
    assert asked == [str(tmp_path), "Qwen/Qwen3-8B"]


def test_a_command_that_starts_neither_engine_is_wrong_usage(invoke: Invoke) -> None:
    assert invoke("check", "--", "ollama", "run", "x").status == 2
    assert invoke("check").status == 2


def test_the_page_keeps_the_words_as_they_were_typed(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_core(monkeypatch, "inspect", lambda source: records.qwen3_8b())
    outcome = invoke("check", 'vllm serve ~/"my models" --max-model-len 999999 > "$LOG" 2>&1 &')
    assert 'vllm serve ~/"my models" --max-model-len' in outcome.out
    assert '> "$LOG" 2>&1 &' in outcome.out
