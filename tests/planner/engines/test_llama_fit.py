"""What ``--fit`` does to a command: the context without ``-c``, the placement where none is given."""

from __future__ import annotations

import pytest
from tests.planner.models import smollm2

from ropewalk.planner.engines.llama_fit import FitEffect, fit_effect, fitted_context
from ropewalk.planner.engines.llama_server import memory_model
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import PlanRequest
from ropewalk.units import GIB, MIB


@pytest.mark.parametrize(
    ("fit", "context", "placed", "mode", "effect"),
    [
        (True, False, (), "layer", FitEffect(True, True, None)),
        (True, True, (), "layer", FitEffect(False, True, None)),
        (False, False, (), "layer", FitEffect(False, False, None)),
        (True, False, ("--gpu-layers",), "layer", FitEffect(True, False, "--gpu-layers")),
        (True, True, ("--cpu-moe",), "layer", FitEffect(False, False, "--cpu-moe")),
        (True, True, (), "row", FitEffect(False, False, "--split-mode")),
        (True, False, (), "tensor", FitEffect(False, False, None)),
    ],
)
def test_what_it_may_change(
    fit: bool, context: bool, placed: tuple[str, ...], mode: str, effect: FitEffect
) -> None:
    assert fit_effect(fit=fit, context_given=context, placed_by=placed, split_mode=mode) == effect


def test_the_context_it_leaves() -> None:
    """On the line between the floor and the longest, in whole pads, and no less than the floor."""
    request = PlanRequest(8192, "llama-server", device="cuda", memory_bytes=GIB)
    model = memory_model(PlanningCase(shape_of(smollm2()), request, Machine(kind="gpu")))
    assert fitted_context(model, longest=8192, margin=100 * MIB) == 8192
    left = fitted_context(model, longest=131072, margin=100 * MIB)
    assert 4096 < left < 131072
    assert left % 256 == 0
    assert fitted_context(model, longest=131072, margin=900 * MIB) == 4096
    assert fitted_context(model, longest=131072, margin=900 * MIB, floor=65536) == 65536
