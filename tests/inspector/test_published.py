"""Models with a publisher's rule are recognised by their fields; all others keep their config's length."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.inspector.published import contexts, rule_for
from ropewalk.inspector.records import Fact


def facts(model_type: str, mpe: int | None, theta: float | None = None, **more: Any) -> dict[str, Fact]:
    values = {"model_type": model_type, "max_position_embeddings": mpe, "rope_theta": theta, **more}
    return {name: Fact(value, "config") for name, value in values.items() if value is not None}


def size(layers: int, hidden: int, intermediate: int | None = None) -> dict[str, int]:
    known = {"num_hidden_layers": layers, "hidden_size": hidden}
    return known if intermediate is None else {**known, "intermediate_size": intermediate}


RECOGNISED = [
    ("qwen3", 40960, 1e6, size(36, 4096, 12288), "Qwen3", 32768, 131072),
    ("qwen3", 40960, None, {}, "Qwen3", 32768, 131072),
    ("qwen3_moe", 40960, 1e6, size(48, 2048), "Qwen3", 32768, 131072),
    ("qwen3moe", 40960, 1e6, size(94, 4096), "Qwen3", 32768, 131072),  # GGUF
    ("qwen3_moe", 262144, 1e7, size(48, 2048), "Qwen3-2507", 262144, 262144),
    ("qwen3", 262144, 5e6, size(36, 2560), "Qwen3-2507", 262144, 262144),
    ("qwen2", 32768, 1e6, size(28, 3584, 18944), "Qwen2, Qwen2.5, QwQ (7B and larger)", 32768, 131072),
    ("qwen2", 40960, 1e6, size(64, 5120, 27648), "Qwen2, Qwen2.5, QwQ (7B and larger)", 32768, 131072),
    ("qwen3_next", 262144, 1e7, size(48, 2048), "Qwen3-Next", 262144, 1010000),
    ("qwen3_5_moe_text", 262144, 1e7, size(40, 2048), "Qwen3.5, Qwen3.6, Qwen3.8", 262144, 1010000),
    ("qwen35", 262144, 1e7, size(64, 5120), "Qwen3.5, Qwen3.6, Qwen3.8", 262144, 1010000),
    ("qwen3_vl_text", 262144, 5e6, size(64, 5120), "Qwen3-VL", 262144, 786432),
    ("smollm3", 65536, 5e6, size(36, 2048), "SmolLM3-3B", 65536, 131072),
]


@pytest.mark.parametrize(("model_type", "mpe", "theta", "sizes", "name", "native", "supported"), RECOGNISED)
def test_recognised(
    model_type: str,
    mpe: int,
    theta: float | None,
    sizes: dict[str, int],
    name: str,
    native: int,
    supported: int,
) -> None:
    known = facts(model_type, mpe, theta, **sizes)
    rule = rule_for(known)
    assert rule is not None
    assert rule.name == name
    found = contexts(known)
    assert (found["native_context"].value, found["supported_context"].value) == (native, supported)
    assert rule.source in str(found["native_context"].detail)


@pytest.mark.parametrize(
    ("model_type", "mpe", "theta", "sizes"),
    [
        ("llama", 8192, 1e5, size(30, 576)),  # SmolLM2
        ("qwen3", 40960, 1e6, size(5, 4096)),  # a draft of Qwen3-8B
        ("qwen3", 128000, 1e6, size(8, 2048)),  # LFM2.5 draft
        ("qwen2", 32768, 1e6, size(64, 5120, 27392)),  # Qwen1.5-32B
        ("qwen2", 32768, 1e6, size(24, 896, 4864)),  # Qwen2.5-0.5B
        ("qwen2", 131072, 1e6, size(48, 5120, 13824)),  # cogito: the config's own 131,072
        ("qwen3_moe", 262144, 1e7, size(62, 6144)),  # Qwen3-Coder-480B
        ("qwen3", 40960, 5e6, {}),
    ],
)
def test_not_recognised(model_type: str, mpe: int, theta: float, sizes: dict[str, int]) -> None:
    known = facts(model_type, mpe, theta, **sizes)
    assert rule_for(known) is None
    assert contexts(known)["native_context"].value == mpe
    assert contexts(known)["supported_context"].value == mpe


def test_a_librarys_default_does_not_disprove() -> None:
    known = facts("qwen3", 40960) | {"rope_theta": Fact(10000.0, "default")}
    assert rule_for(known) is not None


def test_the_publishers_block_in_the_config_is_the_same_model() -> None:
    block = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 32768}
    known = facts("qwen3", 131072, 1e6, rope_parameters=block, **size(36, 4096))
    assert contexts(known)["native_context"].value == 32768
    assert contexts(known)["supported_context"].value == 131072


def yarn(factor: float, original: int, rope_type: str = "yarn") -> dict[str, Any]:
    return {
        "rope_type": rope_type,
        "rope_theta": 1e4,
        "factor": factor,
        "original_max_position_embeddings": original,
    }


@pytest.mark.parametrize(
    ("model_type", "mpe", "block", "expected"),
    [
        ("deepseek_v3", 163840, yarn(40, 4096), 163840),
        ("kimi_k3", 1048576, yarn(32, 32768), 1048576),
        ("telechat3", 32768, yarn(4.0, 8192), 32768),
        ("llama", 131072, yarn(8.0, 8192, "llama3"), 131072),
        ("phi3", 131072, {"rope_type": "longrope", "original_max_position_embeddings": 4096}, 131072),
        ("deepseek", 16384, {"rope_type": "linear", "factor": 4.0}, 65536),
        ("internlm2", 32768, {"rope_type": "dynamic", "factor": 2.0}, 65536),
        ("gemma3_text", 131072, {"rope_type": "linear", "factor": 8.0}, 131072),
        ("gemma4_text", 262144, {"full_attention": {"rope_type": "proportional", "factor": 8.0}}, 262144),
    ],
)
def test_only_linear_and_dynamic_factors_multiply(
    model_type: str, mpe: int, block: dict[str, Any], expected: int
) -> None:
    found = contexts(facts(model_type, mpe, rope_parameters=block))
    assert found["native_context"].value == found["supported_context"].value == expected


def test_command_r_states_a_longer_length_beside() -> None:
    found = contexts(facts("cohere", 8192, model_max_length=131072))
    assert found["native_context"].value == 131072


def test_no_length_stays_unknown() -> None:
    assert contexts(facts("mamba", None))["native_context"].value is None
