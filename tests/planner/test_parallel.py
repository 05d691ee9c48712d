"""Who holds which blocks and heads."""

from __future__ import annotations

import pytest

from ropewalk.errors import UsageError
from ropewalk.planner.parallel import heads_per_rank, pipeline_stages, split_layers


@pytest.mark.parametrize(
    ("layers", "stages", "sizes"),
    [
        (30, 4, [7, 8, 8, 7]),
        (32, 5, [6, 6, 7, 7, 6]),
        (61, 8, [7, 7, 8, 8, 8, 8, 8, 7]),
        (80, 3, [27, 27, 26]),
        (36, 8, [4, 4, 4, 5, 5, 5, 5, 4]),
        (30, 1, [30]),
    ],
)
def test_stages_as_vllm_cuts_them(layers: int, stages: int, sizes: list[int]) -> None:
    """vLLM 0.32, distributed/utils.py get_pp_indices, run."""
    cut = pipeline_stages(layers, stages)
    assert [last - first for first, last in cut] == sizes
    assert (cut[0][0], cut[-1][1]) == (0, layers)


@pytest.mark.parametrize("stages", [0, 5])
def test_more_stages_than_blocks(stages: int) -> None:
    with pytest.raises(UsageError, match="4 blocks"):
        pipeline_stages(4, stages)


@pytest.mark.parametrize(("ranks", "heads"), [(1, 8), (2, 4), (8, 1), (16, 1), (3, 2)])
def test_heads_of_a_rank(ranks: int, heads: int) -> None:
    assert heads_per_rank(8, ranks) == heads


@pytest.mark.parametrize(
    ("gpu_layers", "shares", "counts"),
    [
        (99, [1, 1], [0, 16, 14]),  # 2 RPC devices, -ts 1,1
        (99, [3, 1], [0, 24, 6]),  # -ts 3,1
        (15, [1], [16, 14]),  # -ngl 15: the output layer is one of the fifteen
        (0, [1], [30, 0]),
    ],
)
def test_layers_as_llama_cpp_places_them(gpu_layers: int, shares: list[float], counts: list[int]) -> None:
    """Measured on llama.cpp b11434 with RPC devices, 30 layers."""
    places = split_layers(30, gpu_layers=gpu_layers, shares=shares)[:-1]
    devices = [None, *range(len(shares))]
    assert [sum(place == device for place in places) for device in devices] == counts
