"""Odd checkpoints, commands and logs through all of it: benchmarks/fuzz_pipeline.py with few of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.fuzz_pipeline import judge_checkpoint, judge_command, judge_log, run


@pytest.mark.parametrize("kind", ["checkpoint", "command", "log"])
def test_only_our_own_errors_come(kind: str, tmp_path: Path) -> None:
    judge = {"checkpoint": judge_checkpoint, "command": judge_command}.get(
        kind, lambda rng: judge_log(rng, tmp_path)
    )
    assert not run(kind, judge, count=40, seed=7)
