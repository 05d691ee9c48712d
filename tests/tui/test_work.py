"""The door to the rest of ropewalk, with the real planner behind it: nothing is multiplied on this side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.tui.doubles import CPU, GPU, opened, trial

from ropewalk import core
from ropewalk.errors import UsageError
from ropewalk.inspector.layer_kinds import LatentAttention
from ropewalk.inspector.records import Inspection
from ropewalk.measuring import calibrate
from ropewalk.measuring.recall.tasks import TASKS
from ropewalk.measuring.recall.words import SeededRandom
from ropewalk.planner.calibration import Calibration, PrefillRates
from ropewalk.planner.records import PlanRequest
from ropewalk.serving.host.devices import Device
from ropewalk.serving.host.probe import Host
from ropewalk.tui.state import Opened
from ropewalk.tui.work import Backend
from ropewalk.units import GIB

CALIBRATION = Calibration("run of yesterday", 32768, (PrefillRates(300.0, None, None),), 0.8, 1.2, None)
REQUEST = PlanRequest(context_len=32768, engine="vllm", memory_bytes=48 * GIB, engine_version="0.33.0")


NO_GPU = Host(None, (Device("cpu", "cpu", "Example CPU", 64 * GIB, 64 * GIB),))


@pytest.fixture
def work(tmp_path: Path) -> Backend:
    """A door that has looked for engines already, and found none."""
    made = Backend(state=tmp_path, runs=tmp_path / "runs.sqlite3")
    made._hosts = dict.fromkeys(("vllm", "llama-server", "transformers"), NO_GPU)
    return made


def rotary() -> Opened:
    """Qwen3-8B with what a rope table needs."""
    from ropewalk.inspector.records import Fact

    base = opened()
    block = {"rope_type": "default", "rope_theta": 1_000_000}
    facts = {"rope_parameters": Fact(block, "config"), "rotary_dim": Fact(128, "derived"),
             "position_embedding": Fact("rope", "config")}  # fmt: skip
    return replace(base, inspection=replace(base.inspection, facts=base.inspection.facts | facts))


def test_the_first_request_is_for_the_device_of_every_front_end(work: Backend) -> None:
    request = work.first_request(opened(), (CPU,))
    assert (request.context_len, request.engine, request.device) == (32768, "vllm", "auto")
    assert request.memory_bytes is None  # a GPU elsewhere: this vLLM does not serve on the processor
    work._hosts["vllm"] = Host(None, (GPU, CPU))
    request = work.first_request(opened(), (GPU, CPU))
    assert (request.device, request.memory_bytes) == ("cuda:0", GPU.memory_bytes)
    assert work.first_request(opened(), ()).memory_bytes is None


def test_a_speed_that_was_measured_is_in_the_plan(
    work: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores: list[Path] = []

    def find(inspection: Inspection, request: PlanRequest, here: Host, *, store: Path) -> Calibration:
        stores.append(store)
        return CALIBRATION

    monkeypatch.setattr(calibrate, "find_calibration", find)
    plan = work.plan(rotary(), REQUEST)
    assert plan.compute is not None
    assert plan.compute.speed is not None
    assert (plan.compute.speed.source, plan.compute.speed.prefill_seconds) == ("run of yesterday", 300.0)
    assert stores == [tmp_path / "runs.sqlite3"]


def test_what_fits_falls_with_every_sequence_more(work: Backend) -> None:
    rows = {row.cache_type: row.context_lens for row in work.reach(rotary(), REQUEST)}
    for lengths in rows.values():
        known = [length or 0 for length in lengths]
        assert known == sorted(known, reverse=True)
        assert known[0] > known[-1]
    assert rows["fp8"][0] or (rows["auto"][0] or 0) < 0
    assert work.reach(rotary(), replace(REQUEST, memory_bytes=None)) == ()


def test_kv_heads_what_if(work: Backend) -> None:
    rows = work.what_if_heads(rotary(), REQUEST)
    assert [row.num_key_value_heads for row in rows] == [1, 2, 4, 8, 16, 32]
    actual = next(row for row in rows if row.is_actual)
    assert (actual.num_key_value_heads, actual.bytes_per_token) == (
        8,
        147456,
    )  # 36 layers x 8 x 128 x 2 x 2 B
    assert actual.context_bytes == 147456 * 32768
    assert rows[0].bytes_per_token * 8 == actual.bytes_per_token
    latent = replace(opened().inspection, layers=(LatentAttention(tuple(range(36)), 32, 576),))
    assert work.what_if_heads(replace(opened(), inspection=latent), REQUEST) == ()


def test_masks_count_live_cells(work: Backend) -> None:
    plan = work.plan(rotary(), replace(REQUEST, context_len=1000))
    masks = work.masks(rotary(), plan)
    assert masks is not None
    assert (masks.causal, masks.padding, masks.padded) == (500_500, 250, 281_625)  # n (n + 1) / 2
    assert (masks.window, masks.windowed) == (None, None)


def test_the_rope_table_is_that_of_the_command(work: Backend) -> None:
    table = work.rope(rotary(), replace(REQUEST, context_len=131072))
    assert len(table.pairs) == 64
    assert table.decision.factor == 4.0
    forced = work.rope(rotary(), replace(REQUEST, context_len=65536, arm="yarn:2"))
    assert forced.decision.factor == 2.0
    with pytest.raises(UsageError, match="no rotary positions"):
        work.rope(opened(), REQUEST)


def test_cache_types_are_those_of_the_engine(work: Backend) -> None:
    assert work.cache_types("vllm")[0] == "auto"
    assert "q8_0" in work.cache_types("llama-server")


def test_a_question_is_made_again_from_its_seed(work: Backend) -> None:
    depths = (0.1, 0.3, 0.5, 0.7, 0.9)
    question = TASKS["niah_single"].draft(SeededRandom(1, "niah_single", 1945), depths).questions[2]
    asked = core.asked(replace(trial("shipped", 1945, 0.5), expected=question.expected), depths)
    assert asked is not None
    assert asked.needle is not None
    assert question.expected[0] in asked.needle
    assert asked.question == question.text
    assert core.asked(replace(trial("shipped", 1945, 0.5), task="gone"), depths) is None
