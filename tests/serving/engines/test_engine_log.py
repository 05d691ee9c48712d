"""Whether threads of a process still have something to do, as the system tells it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ropewalk.serving.engines.llama_cpp.engine_log import others_busy


def add_thread(tasks: Path, number: int, state: str, name: str = "python") -> None:
    (tasks / str(number)).mkdir(parents=True)
    (tasks / str(number) / "stat").write_text(f"{number} ({name}) {state} 1 1 1 0\n")


@pytest.mark.parametrize(("state", "busy"), [("R", True), ("D", True), ("S", False), ("Z", False)])
def test_running_ready_and_disk_are_busy(tmp_path: Path, state: str, busy: bool) -> None:
    add_thread(tmp_path, threading.get_native_id(), "R")  # the one that asks
    add_thread(tmp_path, 1, state)
    assert others_busy(tmp_path) is busy


def test_a_name_with_parentheses_is_no_state(tmp_path: Path) -> None:
    add_thread(tmp_path, 1, "S", name="odd) R 1 (name")
    assert not others_busy(tmp_path)


def test_threads_that_end_meanwhile_and_systems_that_do_not_tell(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    assert not others_busy(tmp_path)
    assert not others_busy(tmp_path / "none")
