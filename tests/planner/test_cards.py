"""Cards by name: what CUDA reports of them, and what a plan for them makes of it."""

from __future__ import annotations

import pytest
from tests.planner.models import qwen3_8b

from ropewalk.errors import UsageError
from ropewalk.planner.cards import card_names, find_cards
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import PlanRequest
from ropewalk.units import GIB


@pytest.mark.parametrize(
    ("text", "name", "count"),
    [
        ("H100-80GB", "H100-80GB", 1),
        ("2xH100-80GB", "H100-80GB", 2),
        ("4 x NVIDIA L40S", "L40S", 4),
        ("RTX 4090", "RTX-4090", 1),
        ("NVIDIA GeForce RTX 3090", "RTX-3090", 1),
        ("4090", "RTX-4090", 1),
        ("a100", "A100-80GB", 1),
        ("M4-Max-64GB", "M4-Max-64GB", 1),
    ],
)
def test_names_as_people_write_them(text: str, name: str, count: int) -> None:
    found = find_cards(text)
    assert (found.card.name, found.count) == (name, count)


def test_an_unknown_name_lists_the_nearest() -> None:
    with pytest.raises(UsageError, match="H100") as caught:
        find_cards("H110-80GB")
    assert set(caught.value.where["nearest"]) <= set(card_names())
    with pytest.raises(UsageError):
        find_cards("0xH100-80GB")
    with pytest.raises(UsageError):
        find_cards("")


def test_a_card_stands_for_the_machine() -> None:
    found = make_plan(qwen3_8b(), PlanRequest(8192, "vllm", gpu="H100-80GB"))
    assert found.fit.budget_bytes == int(79.19 * GIB)
    assert found.memory.kv.pool_bytes is not None
    two = make_plan(qwen3_8b(), PlanRequest(8192, "vllm", gpu="2xH100-80GB"))
    assert two.request.tensor_parallel == 2
    assert len(two.memory.per_device) == 2
    cut = make_plan(qwen3_8b(), PlanRequest(8192, "vllm", gpu="2xH100-80GB", pipeline_parallel=2))
    assert (cut.request.tensor_parallel, cut.request.gpus_per_node) == (1, 2)
