"""Which engines read a checkpoint, by format, quantisation and version."""

from __future__ import annotations

import pytest
from tests.inspector.made import QWEN3_8B, inspect

from ropewalk.inspector.derive.readable import read_by
from ropewalk.inspector.records import Fact, Inspection

PLAIN = Fact(None, "config")


def readers(inspection: Inspection) -> dict[str, bool | None]:
    return {one["engine"]: one["reads"] for one in inspection.value("read_by")}


@pytest.mark.parametrize(
    ("method", "vllm", "transformers"),
    [
        ("gptq", True, True),
        ("bitsandbytes", False, True),  # vLLM 0.32 has it no longer, 0.26 had
        ("modelopt", True, False),
        ("exl3", False, False),
        ("bitnet", False, True),
    ],
)
def test_a_quantisation(method: str, vllm: bool, transformers: bool) -> None:
    found = inspect({**QWEN3_8B, "quantization_config": {"quant_method": method, "bits": 4}})
    by_engine = readers(found)
    assert (by_engine["vllm"], by_engine["transformers"]) == (vllm, transformers)
    assert by_engine["llama-server"] is False
    row = next(one for one in found.value("read_by") if one["engine"] == "vllm")
    assert row["version"] == "0.32"
    if method == "bitsandbytes":
        assert row["reason"] == "it no longer reads bitsandbytes, gone in 0.32"


def test_plain_weights_and_types_of_a_gguf() -> None:
    assert readers(inspect(QWEN3_8B))["vllm"] is True
    known = {one["engine"]: one["reads"] for one in read_by("gguf", ["F32", "Q4_K"], PLAIN).value}
    assert (known["llama-server"], known["ollama"], known["vllm"]) == (True, True, False)
    forked = {one["engine"]: one for one in read_by("gguf", ["F32", "type 139"], PLAIN).value}
    assert forked["llama-server"]["reads"] is False
    assert forked["llama-server"]["reason"] == "it has no type 139"
