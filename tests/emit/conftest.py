"""Plans for every test of this part."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.test_commands import write_qwen3
from tests.emit.plans import distribute, on_gpus, on_processor

from ropewalk import core
from ropewalk.inspector.records import Inspection
from ropewalk.planner.records import Plan


@pytest.fixture(scope="session")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> Inspection:
    """Qwen3-8B as published, as a folder of this machine with a blank in its path."""
    folder = tmp_path_factory.mktemp("model store") / "Qwen3-8B"
    write_qwen3(folder)
    return core.inspect(folder)


@pytest.fixture(scope="session")
def single(qwen3: Inspection) -> Plan:
    """One GPU."""
    return on_gpus(qwen3)


@pytest.fixture(scope="session")
def group(qwen3: Inspection) -> Plan:
    """Two machines with two GPUs each."""
    return distribute(on_gpus(qwen3, tensor_parallel=2, pipeline_parallel=2), 2)


@pytest.fixture(scope="session")
def gguf(smollm2: Path) -> Plan:
    """SmolLM2 on the processor."""
    return on_processor(core.inspect(smollm2))
