"""What ``--fit`` does to a command: the context without ``-c``, the placement where none is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.planner.engines.test_llama_placement import read, replicas
from tests.planner.models import smollm2

from ropewalk.planner.engines.llama_fit import FitBounds, FitEffect, fit_effect, fitted_context
from ropewalk.planner.engines.llama_server import memory_model
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import PlanRequest
from ropewalk.units import GIB, MIB

__all__ = ["replicas"]


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


def left(longest: int, **options: Any) -> int:
    request = PlanRequest(8192, "llama-server", device="cuda", memory_bytes=GIB)
    model = memory_model(PlanningCase(shape_of(smollm2()), request, Machine(kind="gpu")))
    found = fitted_context(model, FitBounds(longest=longest, **options))
    assert found.low <= found.tokens <= found.high
    return found.tokens


def test_the_context_it_leaves() -> None:
    """On the line between the floor and the longest, in whole pads, and no less than the floor."""
    assert left(8192, margins=(100 * MIB,)) == 8192
    some = left(131072, margins=(100 * MIB,))
    assert 4096 < some < 131072
    assert some % 256 == 0
    assert left(131072, margins=(900 * MIB,)) == 4096
    assert left(131072, margins=(900 * MIB,), floor=65536) == 65536
    assert left(131072, margins=(100 * MIB,), streams=3, version="11434") % 768 == 0


def test_a_draft_by_build(replicas: Path) -> None:
    """ggml-org/llama.cpp#25408 (b9893): 31,153 MiB were free, 16,386 held by weights, and the draft was taken
    to be as long as the trained context. The checkpoint here has 14,320.3 MiB of them."""
    model = read(replicas / "Qwen3.6-27B-MTP-Q4.gguf")
    free = int((31153 - 16386.94 + 14320.29) * MIB)
    contexts = {}
    for build in ("9297", "9893", "11434"):
        request = PlanRequest(
            262144, "llama-server", device="cuda", memory_bytes=free, mtp=2, batch=4096, ubatch=1024,
            engine_version=build,
        )  # fmt: skip
        held = memory_model(PlanningCase(shape_of(model, mtp=2), request, Machine(kind="gpu")))
        process = next(
            term.bytes
            for term in held.estimate_memory(262144, 1).devices[0].terms
            if term.name == "process_overhead"
        )
        request = replace(request, memory_bytes=free + process)
        held = memory_model(PlanningCase(shape_of(model, mtp=2), request, Machine(kind="gpu")))
        bounds = FitBounds(262144, margins=(512 * MIB,), version=build)
        contexts[build] = fitted_context(held, bounds).tokens
    assert contexts["9297"] > contexts["11434"] > contexts["9893"]
    assert contexts["9893"] == pytest.approx(184_320, abs=256)
