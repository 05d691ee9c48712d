"""Speed before it was measured: published rows lie in the range that is predicted, and plans carry it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.planner.models import llama_8b
from tests.planner.speeds import figures
from tests.report.render import render

from ropewalk.planner.cards import find_cards
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Plan, PlanRequest, Speed
from ropewalk.report.plan import plan_page


def test_every_published_figure_lies_in_the_predicted_range_but_the_one_that_is_named() -> None:
    found = list(figures())
    outside = [(one.row["card"], one.row["model"], one.what) for one in found if not one.holds]
    named = [
        (one.row["card"], one.row["model"], one.what) for one in found if one.row.get("outside") == one.what
    ]
    assert outside == named
    assert (len(found), len(outside)) == (80, 1)


def test_the_ranges_are_no_wider_than_is_said() -> None:
    """What docs/exactness.md states: from the low to the high end, a factor of at most five."""
    for one in figures():
        assert 1.0 < one.high / one.low < 5.01, one


def planned(gpu: str, **options: Any) -> Plan:
    request = PlanRequest(**{"context_len": 8192, "engine": "vllm", "gpu": gpu, "device": "cuda", **options})
    return make_plan(llama_8b(), request)


def speed(plan: Plan) -> Speed:
    assert plan.compute is not None
    assert plan.compute.speed is not None
    return plan.compute.speed


def test_a_plan_for_a_card_has_a_range_around_its_figure() -> None:
    found = speed(planned("H100-80GB"))
    assert found.basis == "estimate"
    low, high = found.decode_tokens_per_second_low or 0, found.decode_tokens_per_second_high or 0
    assert low < (found.decode_tokens_per_second or 0) < high
    # 16 GB of weights and 1 GB of cache over 3,350 GB/s: no more than 209 a second.
    assert high < 3350e9 / 16.06e9
    text = render(plan_page(planned("H100-80GB")), 120)
    assert "speed estimate (what published rows" in text


def test_a_longer_prompt_takes_longer_and_decodes_slower() -> None:
    short, long = speed(planned("H100-80GB")), speed(planned("H100-80GB", context_len=65_536))
    assert (short.prefill_seconds_high or 0) < (long.prefill_seconds_low or 0)
    assert (long.decode_tokens_per_second or 0) < (short.decode_tokens_per_second or 0)


@pytest.mark.parametrize(
    "options",
    [{"gpu": "2xH100-80GB"}, {"engine": "llama-server", "gpu": "L4", "gpu_layers": 10}],
    ids=["several cards", "layers on the host"],
)
def test_what_the_rows_do_not_speak_of_stays_a_bound(options: dict[str, Any]) -> None:
    found = speed(planned(**{"gpu": "", **options}))
    assert found.basis == "bound"
    assert found.decode_tokens_per_second_low is None


def test_every_card_has_a_kind_of_memory() -> None:
    kinds = {
        name: find_cards(name).machine().memory_kind for name in ("A100-40GB", "RTX-5090", "M4-Max-64GB")
    }
    assert kinds == {"A100-40GB": "hbm", "RTX-5090": "gddr", "M4-Max-64GB": "unified"}
