"""``ropewalk bake``."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Invoke


def test_the_command(smollm2: Path, tmp_path: Path, invoke: Invoke) -> None:
    output = tmp_path / "baked.gguf"
    done = invoke("bake", str(smollm2), "--context", "12k", "--output", str(output))
    assert done.status == 0
    assert "llama.rope.scaling.factor = 1.5\n" in done.out
    assert f"wrote {output}" in done.err


def test_the_record_and_a_file_that_is_there(smollm2: Path, tmp_path: Path, invoke: Invoke) -> None:
    words = ("bake", str(smollm2), "--context", "12k", "--output", str(tmp_path / "baked.gguf"))
    assert '"schema": "ropewalk.bake/1"' in invoke(*words, "--json").out
    again = invoke(*words)
    assert (again.status, again.out) == (2, "")
    assert "is there already" in again.err
