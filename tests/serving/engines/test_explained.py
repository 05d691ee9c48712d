"""Options that nobody asked for are explained, each once; those that were asked for are not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.cli import records
from tests.planner.models import llama_8b
from tests.report.render import render
from tests.report.test_ranks import plan

from ropewalk.engines import EngineBuild, EngineName
from ropewalk.planner.records import Launch
from ropewalk.report.plan import plan_page
from ropewalk.serving.engines import with_launch
from ropewalk.serving.engines.llama_cpp import gguf_override
from ropewalk.units import GIB

ASKED = {"--max-model-len", "-m", "--model", "--n_ctx", "-c"}  # by the checkpoint and the context


def launch(engine: EngineName, context_len: int = 32_768, **options: Any) -> Launch:
    build = EngineBuild(engine, engine, "0.33.0", engine)
    found = with_launch(plan(records.qwen3_8b(), context_len, engine, **options), build=build).launch
    assert found is not None
    return found


@pytest.mark.parametrize("engine", ["vllm", "llama-server", "llama-cpp-python"])
@pytest.mark.parametrize("device", ["cpu", "auto"])
@pytest.mark.parametrize(("arm", "context_len"), [("shipped", 32_768), ("auto", 131_072)])
def test_every_option_is_asked_for_or_explained(
    engine: EngineName, device: str, arm: str, context_len: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf_override, "context_key", lambda path: "qwen3.context_length")
    found = launch(engine, context_len, device=device, arm=arm)
    flags = {word for word in found.argv if word.startswith("-") and not word[1:].isdigit()}
    told = Counter(flag for note in found.explained for flag in note.flags)
    assert flags - ASKED - set(told) == set()
    assert max(told.values()) == 1


def test_what_was_asked_for_is_not_explained() -> None:
    told = {flag for note in launch("vllm", num_sequences=4).explained for flag in note.flags}
    assert "--max-num-seqs" not in told
    told = {flag for note in launch("llama-server", batch=512).explained for flag in note.flags}
    assert "-b" not in told


def test_the_page_ends_with_them() -> None:
    build = EngineBuild("vllm", "vllm", "0.33.0", "vllm")
    text = render(plan_page(with_launch(plan(llama_8b(), 8192), build=build)))
    assert "--max-num-seqs" in text[text.index("\noptions ") :]


def test_a_command_that_does_not_fit_is_marked() -> None:
    build = EngineBuild("vllm", "vllm", "0.33.0", "vllm")
    missed = with_launch(plan(llama_8b(), 131_072, memory_bytes=24 * GIB), build=build)
    assert "command    does not fit as it stands" in render(plan_page(missed))
