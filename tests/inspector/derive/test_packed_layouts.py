"""Layouts of quantisers that do not tell everything: doubt the packing, keep the config, lose no layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.inspector.made import Specs, codes, inspect

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 1,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 2048,
    "vocab_size": 1000, "max_position_embeddings": 4096, "tie_word_embeddings": True,
}  # fmt: skip
SIDES = {
    "self_attn.q_proj": (512, 512), "self_attn.k_proj": (128, 512), "self_attn.v_proj": (128, 512),
    "self_attn.o_proj": (512, 512), "mlp.gate_proj": (2048, 512), "mlp.up_proj": (2048, 512),
    "mlp.down_proj": (512, 2048),
}  # fmt: skip
PARAMETERS = 1000 * 512 + 2 * 512 + sum(out * inputs for out, inputs in SIDES.values())
Layout = Callable[[str, int, int], Specs]


def stored(layout: Layout) -> dict[str, Any]:
    found: dict[str, Any] = {
        "model.embed_tokens.weight": ("BF16", (1000, 512)),
        "model.layers.0.input_layernorm.weight": ("BF16", (512,)),
        "model.layers.0.post_attention_layernorm.weight": ("BF16", (512,)),
    }
    for module, (out, inputs) in SIDES.items():
        found |= layout(f"model.layers.0.{module}", out, inputs)
    return found


def quark(module: str, out: int, inputs: int) -> Specs:
    """Words along the outputs under the plain name (quark, pack_method reorder)."""
    return {
        f"{module}.weight": ("I32", (inputs, out // 8)),
        f"{module}.weight_scale": ("BF16", (inputs // 128, out)),
        f"{module}.weight_zero_point": ("I32", (inputs // 128, out // 8)),
    }


def spqr(module: str, out: int, inputs: int) -> Specs:
    return {
        f"{module}.dense_weights": ("I64", (out * inputs // 64,)),
        f"{module}.row_offsets": ("I32", (out + 1,)),
        f"{module}.col_vals": ("I32", (128,)),
    }


def nf4(module: str, out: int, inputs: int) -> Specs:
    return {
        f"{module}.weight": ("U8", (out * inputs // 2, 1)),
        f"{module}.weight.absmax": ("F32", (out * inputs // 64,)),
    }


def mlx(module: str, out: int, inputs: int) -> Specs:
    """4 bits in groups of 64; the feed-forward's way back in 8 bits and groups of 32, which no key says."""
    bits, group = (8, 32) if "down" in module else (4, 64)
    return {
        f"{module}.weight": ("U32", (out, inputs * bits // 32)),
        f"{module}.scales": ("BF16", (out, inputs // group)),
        f"{module}.biases": ("BF16", (out, inputs // group)),
    }


@pytest.mark.parametrize(
    ("layout", "said", "parameters"),
    [
        (quark, {"quantization_config": {"quant_method": "quark"}}, PARAMETERS),
        (spqr, {"quantization_config": {"quant_method": "spqr", "bits": 3}}, None),
        (nf4, {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, PARAMETERS),
        (mlx, {"quantization": {"bits": 4, "group_size": 64}}, PARAMETERS + 512 * 2048),
    ],
)
def test_heads_and_layers_stay(layout: Layout, said: dict[str, Any], parameters: int | None) -> None:
    found = inspect({**CONFIG, **said}, stored(layout))
    assert codes(found, "error") == []
    (layer,) = found.layers
    assert (layer.kind, layer.num_attention_heads, layer.num_key_value_heads) == ("full", 8, 2)
    assert (layer.head_dim_k, found.value("intermediate_size")) == (64, 2048)
    assert found.checkpoint.parameters == parameters


def test_twice_the_inputs_of_a_flat_weight_is_a_doubt() -> None:
    """Zamba 2 attends to two hidden states at once: a flat weight of 4 bits shows no side."""
    layout = stored(nf4)
    for module in ("q_proj", "k_proj", "v_proj"):
        out, inputs = SIDES[f"self_attn.{module}"]
        layout |= nf4(f"model.layers.0.self_attn.{module}", out, 2 * inputs)
    said = {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}
    found = inspect({**CONFIG, **said}, layout)
    assert codes(found, "error") == []
    assert found.layers[0].num_key_value_heads == 2


def test_a_higgs_checkpoint_is_quantised() -> None:
    """Its codes are I16, which no other quantiser stores alone."""
    layout = stored(lambda module, out, inputs: {f"{module}.weight": ("I16", (out // 4, inputs))})
    said = {"quantization_config": {"quant_method": "higgs", "bits": 4}}
    assert codes(inspect({**CONFIG, **said}, layout), "error") == []
