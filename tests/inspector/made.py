"""Opened checkpoints made by code, without files: a config and the names, dtypes and shapes of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ropewalk.findings import Finding
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.inspector.readers.dtypes import BITS
from ropewalk.inspector.readers.ggml_types import GGML_TYPES
from ropewalk.inspector.records import Checkpoint, Inspection
from ropewalk.inspector.tensors import TensorTable

Specs = Mapping[str, tuple[str, Sequence[int]]]
"""Name to dtype and row-major shape."""

QWEN3_8B: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 4096, "intermediate_size": 12288, "max_position_embeddings": 40960,
    "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
    "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "use_sliding_window": False, "vocab_size": 151936,
}  # fmt: skip


def table_of(specs: Specs) -> TensorTable:
    """The tensors one after the other in one file."""
    table = TensorTable()
    file, offset = table.add_file("model.safetensors"), 0
    for name, (dtype, shape) in specs.items():
        nbytes = _nbytes(dtype, shape)
        table.append(name, dtype, tuple(shape), nbytes, file, offset)
        offset += nbytes
    return table


def _nbytes(dtype: str, shape: Sequence[int]) -> int:
    if dtype in BITS:
        return prod(shape) * BITS[dtype] // 8
    kind = next(kind for kind in GGML_TYPES.values() if kind.name == dtype)
    return prod(shape) // kind.block_len * kind.block_bytes


def made(
    config: Mapping[str, Any] | None = None,
    specs: Specs | None = None,
    *,
    gguf: Mapping[str, Any] | None = None,
    relatives: Mapping[str, Any] | None = None,
    findings: Sequence[Finding] = (),
) -> Checkpoint:
    """A checkpoint as a reader would hand it on."""
    stored = "safetensors" if specs else "config"
    return Checkpoint(
        source="made",
        path=None,
        format="gguf" if gguf is not None else "safetensors" if stored == "safetensors" else "config",
        files=(),
        tensors=table_of(specs or {}),
        config=dict(config or {}),
        gguf=dict(gguf or {}),
        relatives=dict(relatives or {}),
        findings=tuple(findings),
    )


def inspect(config: Mapping[str, Any] | None = None, specs: Specs | None = None, **more: Any) -> Inspection:
    """The inspection of such a checkpoint."""
    return inspect_checkpoint(made(config, specs, **more))


def codes(inspection: Inspection, severity: str | None = None) -> list[str]:
    """The codes of the findings, of one severity or all."""
    return [f.code for f in inspection.findings if severity in (None, f.severity)]


def qwen3(config: Mapping[str, Any] = QWEN3_8B, *, head: bool | None = None) -> dict[str, Any]:
    """The tensors of a dense Qwen3; the head is stored unless the config ties it or ``head`` says so."""
    hidden, inner, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    block = {
        "input_layernorm": [hidden], "post_attention_layernorm": [hidden],
        "self_attn.q_proj": [queries, hidden], "self_attn.k_proj": [keys, hidden],
        "self_attn.v_proj": [keys, hidden], "self_attn.o_proj": [hidden, queries],
        "self_attn.q_norm": [size], "self_attn.k_norm": [size],
        "mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden], "mlp.down_proj": [hidden, inner],
    }  # fmt: skip
    specs: dict[str, Any] = {"model.embed_tokens.weight": ("BF16", [config["vocab_size"], hidden])}
    for layer in range(config["num_hidden_layers"]):
        for name, shape in block.items():
            specs[f"model.layers.{layer}.{name}.weight"] = ("BF16", shape)
    specs["model.norm.weight"] = ("BF16", [hidden])
    if head if head is not None else not config["tie_word_embeddings"]:
        specs["lm_head.weight"] = ("BF16", [config["vocab_size"], hidden])
    return specs
