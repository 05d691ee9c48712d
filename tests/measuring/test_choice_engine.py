"""``choose --measure`` for real: quantisations of SmolLM2 made by the engine, served and measured in turn."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.measuring.requantised import requantise

from ropewalk import core
from ropewalk.measuring.settings import MeasureSettings


@pytest.mark.engine
@pytest.mark.slow
def test_the_quantisations_of_a_model_measured_and_ranked(smollm2: Path, tmp_path: Path) -> None:
    folder = tmp_path / "SmolLM2"
    folder.mkdir()
    for dtype in ("Q8_0", "Q4_0"):
        requantise(smollm2, folder / f"SmolLM2-135M-{dtype}.gguf", dtype)
    settings = MeasureSettings(lengths=(200,), depths=(0.5,), threads=1)
    found = core.choose(
        folder,
        context_len=512,
        engines=["llama-server"],
        device="cpu",
        cache_type_k="f16",
        cache_type_v="f16",
        store=tmp_path / "runs.sqlite3",
        measure=2,
        settings=settings,
    )
    assert [round(option.bits_per_weight or 0, 1) for option in found.options] == [8.5, 4.5]
    runs = [option.run for option in found.options]
    for run in runs:
        assert run is not None
        assert (run.finished, run.length, run.trials) == (True, 200, 1)
        assert run.recall in (0.0, 1.0)
        assert (run.decode_tokens_per_second or 0) > 1
    assert found.here is not None
    assert found.here.startswith("ropewalk serve")
    again = core.choose(
        folder,
        context_len=512,
        engines=["llama-server"],
        device="cpu",
        cache_type_k="f16",
        cache_type_v="f16",
        store=tmp_path / "runs.sqlite3",
        measure=2,
        settings=settings,
    )
    assert {option.run and option.run.run_id for option in again.options} == {
        run and run.run_id for run in runs
    }
    assert core.running_servers() == ()
