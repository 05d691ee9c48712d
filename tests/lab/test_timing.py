"""Kernels timed: which lengths, the formula beside them, what is left out with its size."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
from tests.lab import tiny

from ropewalk import core
from ropewalk.errors import UsageError
from ropewalk.inspector.records import Inspection
from ropewalk.lab import timing
from ropewalk.lab.eager import eager_attention, sdpa_attention
from ropewalk.lab.forward import visible

pytestmark = pytest.mark.extra


@pytest.fixture(scope="module")
def inspection(tmp_path_factory: pytest.TempPathFactory) -> Inspection:
    return core.inspect(tiny.write(tmp_path_factory.mktemp("tiny"), tiny.LLAMA))


def test_lengths_double_and_the_formula_stands_beside(inspection: Inspection) -> None:
    timed = timing.time_kernels(inspection, up_to=600, device="cpu")
    assert [(point.kernel, point.length) for point in timed.points] == [
        ("eager", 256), ("sdpa", 256), ("eager", 512), ("sdpa", 512),
    ]  # fmt: skip
    last = timed.points[-1]
    assert last.square_bytes == 4 * 512**2 * 4
    assert last.flops == 4 * 4 * 8 * 512**2
    assert all(point.seconds is not None and point.seconds > 0 for point in timed.points)
    assert (timed.dtype, timed.num_key_value_heads, timed.head_dim) == ("float32", 2, 8)


def test_a_short_limit_is_a_length_of_its_own(inspection: Inspection) -> None:
    timed = timing.time_kernels(inspection, up_to=100, device="cpu")
    assert [point.length for point in timed.points] == [100, 100]


def test_squares_that_do_not_fit_are_left_out_with_their_size(
    inspection: Inspection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "_free_bytes", lambda device: 4 * 256**2 * 4)
    eager, sdpa = timing.time_kernels(inspection, up_to=256, device="cpu").points
    assert (eager.seconds, eager.peak_bytes) == (None, None)
    assert eager.note == "not run: about 3.00 MiB needed, 1.00 MiB free"
    assert sdpa.seconds is not None


def test_a_device_that_torch_does_not_know_is_refused(inspection: Inspection) -> None:
    with pytest.raises(UsageError, match="torch has no device warp here"):
        timing.time_kernels(inspection, up_to=256, device="warp")


def test_both_kernels_compute_the_same() -> None:
    torch.manual_seed(1)
    query, key, value = torch.randn(1, 6, 9, 4), torch.randn(1, 2, 9, 4), torch.randn(1, 2, 9, 4)
    _, eager = eager_attention(query, key, value, visible(9, None))
    for mask in (visible(9, None), None):
        assert torch.allclose(sdpa_attention(query, key, value, mask), eager, atol=1e-6)
    _, windowed = eager_attention(query, key, value, visible(9, 4))
    assert not torch.allclose(windowed[0, :, -1], eager[0, :, -1], atol=1e-2)
