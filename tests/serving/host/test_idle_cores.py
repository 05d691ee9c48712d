"""Idle cores from the system's own ticks."""

from __future__ import annotations

from pathlib import Path

from ropewalk.serving.host import devices as idle


def test_ticks_are_idle_and_all(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 50 800 40 0 10 0 7 0\ncpu0 1 2 3\n")
    assert idle._ticks(stat) == (840, 1000)  # guest time is already inside user time


def test_a_system_that_does_not_count_them(tmp_path: Path) -> None:
    assert idle._ticks(tmp_path / "none") is None
    (tmp_path / "odd").write_text("cpu a b\n")
    assert idle._ticks(tmp_path / "odd") is None


def test_idle_cores_are_a_share_of_all_and_never_none() -> None:
    assert idle.idle_between((0, 0), (100, 100), cores=8) == 8
    assert idle.idle_between((0, 0), (55, 100), cores=8) == 4
    assert idle.idle_between((0, 0), (3, 100), cores=2) == 1
    assert idle.idle_between((5, 9), (5, 9), cores=2) == 2
