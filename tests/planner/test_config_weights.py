"""Weights of a bare config: within 3 % of the class, or said not to follow from it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.inspector.made import inspect

from ropewalk.planner.model import shape_of
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import PlanRequest

_BASE: dict[str, Any] = {"dtype": "bfloat16", "max_position_embeddings": 4096}


def _weights(config: dict[str, Any]) -> int:
    return shape_of(inspect({**_BASE, **config})).weights.total // 2


def test_inputs_of_every_layer_are_weights() -> None:
    """Gemma 3n and 4: a table of 256 numbers for each of 30 blocks and every token."""
    plain = {"model_type": "gemma4_text", "num_hidden_layers": 30, "hidden_size": 2304,
             "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 9216,
             "vocab_size": 262_144, "tie_word_embeddings": True}  # fmt: skip
    more = _weights({**plain, "hidden_size_per_layer_input": 256}) - _weights(plain)
    assert more == 256 * 30 * (262_144 + 2304) + 2 * 256 * 30 * 2304


def test_an_activation_without_a_gate_and_experts_that_are_off() -> None:
    dense = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8,
             "intermediate_size": 2048, "vocab_size": 1000, "rms_norm_eps": 1e-6}  # fmt: skip
    gated = _weights({**dense, "hidden_act": "silu"})
    assert gated - _weights({**dense, "hidden_act": "relu2"}) == 2 * 512 * 2048
    assert _weights({**dense, "hidden_act": "silu", "is_moe": False, "num_experts": 16384}) == gated


def test_a_mamba_has_no_feed_forward() -> None:
    found = _weights({"model_type": "mamba", "num_hidden_layers": 4, "hidden_size": 768, "conv_kernel": 4,
                      "intermediate_size": 1536, "state_size": 16, "vocab_size": 1000, "expand": 2,
                      "tie_word_embeddings": True})  # fmt: skip
    assert found == 1000 * 768 + 4 * 3 * 768 * 1536


def test_experts_for_two_sorts_of_tokens() -> None:
    """ERNIE 4.5 VL: 64 experts of 1,536 for text and 64 of 512 for pictures."""
    config = {"model_type": "ernie4_5_vl_moe_text", "num_hidden_layers": 4, "hidden_size": 2560,
              "num_attention_heads": 20, "num_key_value_heads": 4, "intermediate_size": 12288,
              "moe_intermediate_size": [1536, 512], "moe_num_experts": 64, "moe_k": 6,
              "vocab_size": 1000}  # fmt: skip
    assert shape_of(inspect({**_BASE, **config})).expert_len == 2048


@pytest.mark.parametrize(("method", "bits"), [("mxfp4", 4.25), ("modelopt", 4.5)])
def test_scales_of_four_bit_floats(method: str, bits: float) -> None:
    dense = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8,
             "intermediate_size": 2048, "vocab_size": 1000}  # fmt: skip
    quantised = {"quant_method": method, "quant_algo": "NVFP4" if method == "modelopt" else None}
    shape = shape_of(inspect({**_BASE, **dense, "quantization_config": quantised}))
    plain = shape_of(inspect({**_BASE, **dense}))
    ratio = 16 if method == "mxfp4" else bits  # without experts MXFP4 packs nothing
    assert sum(shape.weights.layers) == sum(plain.weights.layers) * ratio // 16


def test_a_type_that_its_config_does_not_tell() -> None:
    config = {"model_type": "zamba2", "num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4,
              "intermediate_size": 512, "vocab_size": 1000}  # fmt: skip
    plan = make_plan(inspect({**_BASE, **config}), PlanRequest(1024, "transformers"))
    assert "weights_not_told" in [finding.code for finding in plan.findings]
    weights = next(term for term in plan.memory.terms if term.name == "weights")
    assert (weights.low_bytes, weights.high_bytes) == (weights.bytes // 4, weights.bytes * 4)
