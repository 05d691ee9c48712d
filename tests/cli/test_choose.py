"""``ropewalk choose``: the page, the record, the exit status."""

from __future__ import annotations

import json
from pathlib import Path

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


def test_where_nothing_fits_it_ends_with_1_and_the_nearest(tmp_path: Path, invoke: Invoke) -> None:
    outcome = invoke("choose", folder_of(tmp_path), "--context", "32k", "--memory", "64MiB", "--explain")
    assert outcome.status == 1
    assert "0 of 8 candidates" in outcome.out
    assert "does not fit" in outcome.out
