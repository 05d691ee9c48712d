"""Adapters, draft heads, projectors and files that are none of these."""

from __future__ import annotations

from typing import Any

import pytest
from tests.inspector.made import codes, inspect

LORA = {
    f"base_model.model.model.layers.{layer}.self_attn.q_proj.lora_{half}.weight": ("F32", shape)
    for layer in range(2)
    for half, shape in (("A", [16, 4096]), ("B", [4096, 16]))
}


def test_a_lora_names_its_base_model() -> None:
    said = {"base_model_name_or_path": "Qwen/Qwen3-8B", "r": 16, "lora_alpha": 32, "peft_type": "LORA"}
    inspection = inspect(specs=LORA, relatives={"adapter_config.json": said})
    assert inspection.checkpoint.kind == "adapter"
    assert inspection.checkpoint.parameters == 4 * 16 * 4096
    values = [inspection.value(n) for n in ("base_model", "adapter_rank", "adapter_alpha", "adapter_type")]
    assert values == ["Qwen/Qwen3-8B", 16, 32, "LORA"]
    assert codes(inspection, "warning") == ["adapter_only"]
    assert inspection.layers == ()


def test_a_lora_without_its_config_is_seen_by_its_names() -> None:
    inspection = inspect(specs=LORA)
    assert inspection.checkpoint.kind == "adapter"
    assert inspection.facts["adapter_rank"].value == 16
    assert inspection.facts["adapter_rank"].source == "tensor"


def test_a_lora_as_gguf() -> None:
    metadata = {"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora",
                "adapter.lora.alpha": 32.0}  # fmt: skip
    specs = {"blk.0.attn_q.weight.lora_a": ("F32", [8, 64]), "blk.0.attn_q.weight.lora_b": ("F32", [64, 8])}
    inspection = inspect(specs=specs, gguf=metadata)
    assert inspection.checkpoint.kind == "adapter"
    assert [inspection.value(n) for n in ("adapter_rank", "adapter_alpha")] == [8, 32.0]


@pytest.mark.parametrize(
    "config",
    [{"architectures": ["LlamaForCausalLMEagle3"]}, {"architectures": ["DFlashDraftModel"]},
     {"architectures": ["DSparkDraftModel"]}, {"architectures": ["DeepSeekMTPModel"]},
     {"architectures": ["LlamaForCausalLM"], "draft_vocab_size": 32000}],
)  # fmt: skip
def test_draft_heads(config: dict[str, Any]) -> None:
    sizes = {"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 4096, "num_attention_heads": 32}
    inspection = inspect(sizes | config)
    assert inspection.checkpoint.kind == "draft"
    assert inspection.layers[0].count == 1


def test_a_projector_has_no_layers_of_a_language_model() -> None:
    metadata = {"general.architecture": "clip", "general.type": "mmproj", "clip.vision.block_count": 1}
    specs = {"v.blk.0.attn_q.weight": ("F16", [1152, 1152]), "mm.0.weight": ("F16", [4096, 1152])}
    inspection = inspect(specs=specs, gguf=metadata)
    assert inspection.checkpoint.kind == "projector"
    assert inspection.checkpoint.parameters == 1152 * 1152 + 4096 * 1152
    assert inspection.weights is not None
    assert inspection.weights.total == inspection.checkpoint.tensor_bytes


def test_tensors_that_are_no_model() -> None:
    inspection = inspect(specs={"a": ("F32", [2, 2]), "marker": ("F8_E4M3", [0]), "scalar": ("F32", [])})
    assert inspection.checkpoint.kind == "unknown"
    assert (inspection.checkpoint.stored_elements, inspection.checkpoint.tensor_bytes) == (5, 20)
    assert not inspection.findings


def test_vision_tensors_alone_are_no_language_model() -> None:
    specs = {"vision_model.encoder.layers.0.self_attn.q_proj.weight": ("F16", [64, 64])}
    assert inspect(specs=specs).checkpoint.kind == "unknown"


def test_a_model_without_any_config_is_read_from_its_tensors() -> None:
    specs: dict[str, Any] = {"model.embed_tokens.weight": ("BF16", [1000, 256])}
    for layer in range(3):
        prefix = f"model.layers.{layer}.self_attn"
        specs |= {
            f"{prefix}.q_proj.weight": ("BF16", [512, 256]), f"{prefix}.k_proj.weight": ("BF16", [128, 256]),
            f"{prefix}.v_proj.weight": ("BF16", [128, 256]), f"{prefix}.k_norm.weight": ("BF16", [64]),
        }  # fmt: skip
    inspection = inspect(specs=specs)
    assert inspection.checkpoint.kind == "model"
    names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    assert [inspection.value(name) for name in names] == [3, 256, 8, 2, 64]


def test_mistral_files_without_config_json() -> None:
    own = {"dim": 5120, "n_layers": 40, "head_dim": 128, "hidden_dim": 32768, "n_heads": 32, "n_kv_heads": 8,
           "vocab_size": 131072, "rope_theta": 1e9}  # fmt: skip
    inspection = inspect(relatives={"params.json": own})
    (group,) = inspection.layers
    assert (group.count, group.num_key_value_heads, group.head_dim_k) == (40, 8, 128)
    assert inspection.value("intermediate_size") == 32768
    assert inspection.value("rope_theta") == 1e9
