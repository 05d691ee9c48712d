"""A choice whose first answers are measured: ranked by what was seen, and not measured twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.measuring.test_measure import Bench

from ropewalk import core
from ropewalk.measuring.settings import MeasureSettings
from ropewalk.measuring.store import RunStore
from ropewalk.planner.choice import Choice
from ropewalk.units import GIB

SETTINGS = MeasureSettings(lengths=(400,), threads=1)


def choose(bench: Bench, model: Path, count: int) -> Choice:
    return core.choose(
        model,
        context_len=2048,
        memory_bytes=2 * GIB,
        device="cpu",
        store=bench.store.path,
        measure=count,
        settings=SETTINGS,
        start=bench.start,
    )


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    with RunStore(tmp_path / "runs.sqlite3") as store:
        yield Bench(store, tmp_path / "none.gguf")


def test_the_ranking_follows_what_was_seen(bench: Bench, smollm2: Path) -> None:
    """The first by rule forgets, the second does not."""
    bench.faults = [{"window": 60}, {}]
    by_rule = choose(bench, smollm2, 0)
    assert [option.cache_type for option in by_rule.options[:2]] == ["f16", "q8_0"]
    found = choose(bench, smollm2, 2)
    first, second = found.options[:2]
    assert (first.cache_type, second.cache_type) == ("q8_0", "f16")
    assert first.run is not None
    assert second.run is not None
    assert (first.run.recall, first.run.length, first.run.trials) == (1.0, 400, 5)
    assert second.run.recall is not None
    assert second.run.recall < 1
    assert found.command is not None
    assert "-ctk q8_0" in found.command
    assert [option.run for option in found.options[2:]] == [None, None]
    assert all(server.stopped for server in bench.servers)


def test_what_was_measured_is_not_measured_again(bench: Bench, smollm2: Path) -> None:
    once = choose(bench, smollm2, 1)
    again = choose(bench, smollm2, 2)
    assert len(bench.servers) == 2
    runs = {option.cache_type: option.run and option.run.run_id for option in again.options}
    assert runs["f16"] == (once.options[0].run and once.options[0].run.run_id)
    assert len({run for run in runs.values() if run}) == 2


def test_what_cannot_be_served_comes_after_what_can(bench: Bench, smollm2: Path) -> None:
    bench.faults = [{"dies_after": 0}, {}]
    found = choose(bench, smollm2, 2)
    assert found.options[0].cache_type == "q8_0"
    failed = next(option for option in found.options if option.cache_type == "f16")
    assert failed.run is not None
    assert failed.run.finished is False
    assert found.options.index(failed) == 3


def test_a_measured_cache_type_is_known_to_the_next_choice(bench: Bench, smollm2: Path) -> None:
    choose(bench, smollm2, 2)
    costs = {option.cache_type: option.cache_cost for option in choose(bench, smollm2, 0).options}
    assert (costs["q8_0"].basis, costs["q8_0"].loss, costs["q8_0"].recall) == ("measured", "none", 1.0)
    assert costs["q4_0"].basis == "rule"
