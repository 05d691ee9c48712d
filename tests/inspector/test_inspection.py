"""What an inspection says of whole checkpoints, to the parameter and the byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.inspector.made import QWEN3_8B, codes, inspect, qwen3

from ropewalk.errors import CheckpointError
from ropewalk.findings import Finding
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.derive.roles import role_of
from ropewalk.inspector.inspection import inspect_checkpoint


@pytest.fixture(scope="module")
def qwen3_8b() -> Any:
    return inspect(QWEN3_8B, qwen3())


def test_parameters_of_qwen3_8b_divide_as_published(qwen3_8b: Any) -> None:
    # Qwen/Qwen3-8B: 36 blocks of 192,946,432, two matrices of 151,936 x 4,096 and the last norm.
    assert qwen3_8b.checkpoint.parameters == 36 * 192_946_432 + 2 * 622_329_856 + 4_096 == 8_190_735_360
    block = qwen3_8b.block
    assert block.parameters == 192_946_432
    assert block.attention_parameters == 41_943_296
    assert block.feed_forward_parameters == 3 * 50_331_648
    sizes = {tensor.name: (tensor.shape, tensor.parameters) for tensor in block.tensors}
    assert sizes["self_attn.q_proj.weight"] == ((4096, 4096), 16_777_216)
    assert sizes["self_attn.k_proj.weight"] == ((1024, 4096), 4_194_304)
    assert sizes["self_attn.q_norm.weight"] == ((128,), 128)


def test_bytes_of_qwen3_8b_by_place(qwen3_8b: Any) -> None:
    weights = qwen3_8b.weights
    assert weights.total == qwen3_8b.checkpoint.tensor_bytes == 16_381_470_720
    assert (weights.embedding, weights.output_head, weights.other) == (1_244_659_712, 1_244_659_712, 8_192)
    assert set(weights.layers) == {385_892_864}
    assert len(weights.layers) == 36
    assert qwen3_8b.checkpoint.dtypes["BF16"].num_tensors == 399


def test_facts_of_qwen3_8b_come_from_the_tensors(qwen3_8b: Any) -> None:
    facts = qwen3_8b.facts
    for name, value, tensor in (
        ("num_hidden_layers", 36, "blocks of model.layers.*"),
        ("num_attention_heads", 32, "model.layers.0.self_attn.q_proj.weight"),
        ("num_key_value_heads", 8, "model.layers.0.self_attn.k_proj.weight"),
        ("head_dim", 128, "model.layers.0.self_attn.k_norm.weight"),
        ("intermediate_size", 12288, "model.layers.0.mlp.down_proj.weight"),
        ("vocab_size", 151936, "model.embed_tokens.weight"),
        ("tie_word_embeddings", False, "lm_head.weight"),
    ):
        assert (facts[name].value, facts[name].source, facts[name].detail) == (value, "tensor", tensor)
    assert facts["gqa_ratio"].value == 4
    assert facts["rope_theta"].value == 1_000_000
    assert (facts["native_context"].value, facts["supported_context"].value) == (32768, 131072)
    assert facts["normalisation"].value == "RMSNorm"
    assert facts["feed_forward"].value == "gated, silu"
    assert not qwen3_8b.findings
    (group,) = qwen3_8b.layers
    assert (group.kind, group.count, group.num_key_value_heads, group.head_dim_k) == ("full", 36, 8, 128)
    assert group.indices == tuple(range(36))
    assert group.rotary is True


@pytest.mark.parametrize(
    ("hidden", "inner", "total", "attention_share"),
    [(2048, 6144, 1_720_574_976, 0.250), (1024, 3072, 596_049_920, 0.400)],
)
def test_smaller_qwen3_have_heads_of_their_own_width(
    hidden: int, inner: int, total: int, attention_share: float
) -> None:
    # Qwen3-1.7B and 0.6B: 16 heads of 128 whatever the hidden size; the head is the embedding.
    sizes = {"hidden_size": hidden, "intermediate_size": inner, "num_attention_heads": 16}
    config = QWEN3_8B | sizes | {"num_hidden_layers": 28, "tie_word_embeddings": True}
    inspection = inspect(config, qwen3(config))
    assert inspection.checkpoint.parameters == total
    block = inspection.block
    assert block is not None
    assert round(block.attention_parameters / block.parameters, 3) == attention_share
    assert inspection.value("head_dim") == 128
    assert inspection.facts["tie_word_embeddings"].value is True
    assert inspection.weights is not None
    assert inspection.weights.output_head == 0


def test_other_numbers_of_kv_heads(qwen3_8b: Any) -> None:
    """Key and value projections grow in proportion; all else of the block stays."""
    block = qwen3_8b.block
    grown = sum(tensor.parameters for tensor in block.tensors if role_of(tensor.name) in ("k", "v"))
    attention = {
        heads: block.attention_parameters - grown + grown * heads // qwen3_8b.value("num_key_value_heads")
        for heads in (8, 32, 1)
    }
    assert attention == {8: 41_943_296, 32: 67_109_120, 1: 34_603_264}


def test_a_classic_block_is_twelve_squares() -> None:
    # Multi-head, two matrices of 4 d, biases: 12 d^2 + 9 d, 49,728 at d = 64; the norms beside.
    shapes = {
        "attn.c_attn": [64, 192],
        "attn.c_proj": [64, 64],
        "mlp.c_fc": [64, 256],
        "mlp.c_proj": [256, 64],
    }
    specs: dict[str, Any] = {"wte.weight": ("F32", [100, 64]), "wpe.weight": ("F32", [32, 64])}
    for name, shape in shapes.items():
        specs[f"h.0.{name}.weight"] = ("F32", shape)
        specs[f"h.0.{name}.bias"] = ("F32", shape[1:])
    specs["h.0.attn.bias"] = ("F32", [1, 1, 32, 32])  # the causal mask, no parameter
    for norm in ("ln_1", "ln_2"):
        specs |= {f"h.0.{norm}.weight": ("F32", [64]), f"h.0.{norm}.bias": ("F32", [64])}
    config = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 1, "n_positions": 32}
    inspection = inspect({**config, "vocab_size": 100}, specs)
    block = inspection.block
    assert block is not None
    assert block.attention_parameters + block.feed_forward_parameters == 49_728
    assert inspection.checkpoint.parameters == 49_728 + 4 * 64 + (100 + 32) * 64
    assert inspection.value("position_embedding") == "learned"
    assert inspection.value("normalisation") == "LayerNorm"
    assert inspection.value("rope_theta") is None
    assert [inspection.value(name) for name in ("num_key_value_heads", "head_dim")] == [4, 16]


def test_a_lying_config_is_contradicted_field_by_field() -> None:
    lies = QWEN3_8B | {"num_key_value_heads": 4, "num_hidden_layers": 32, "tie_word_embeddings": True}
    inspection = inspect(lies, qwen3())
    told = {finding.where["field"]: finding for finding in inspection.findings if finding.severity == "error"}
    assert set(told) == {"num_key_value_heads", "num_hidden_layers"}
    assert told["num_key_value_heads"].where == {
        "field": "num_key_value_heads", "config": 4, "tensors": 8, "num_layers": 36,
        "tensor": "model.layers.0.self_attn.k_proj.weight",
    }  # fmt: skip
    assert told["num_hidden_layers"].where["tensors"] == 36
    assert inspection.value("num_key_value_heads") == 8
    assert inspection.layers[0].count == 36
    assert codes(inspection, "warning") == ["tied_flag_but_lm_head_present"]


def test_a_tied_head_that_is_stored_counts_once() -> None:
    config = QWEN3_8B | {"tie_word_embeddings": True}
    inspection = inspect(config, qwen3(config, head=True))
    assert inspection.checkpoint.parameters == 8_190_735_360 - 622_329_856
    assert inspection.checkpoint.tensor_bytes == 16_381_470_720
    assert codes(inspection) == ["tied_flag_but_lm_head_present"]


def test_a_generating_model_without_a_head_is_told() -> None:
    inspection = inspect(QWEN3_8B, qwen3(head=False))
    assert codes(inspection, "error") == ["lm_head_missing"]
    assert inspection.value("tie_word_embeddings") is True


def test_missing_shards_prove_nothing() -> None:
    kept = {name: spec for name, spec in qwen3().items() if "layers.1" in name or "embed" in name}
    lost = Finding("missing_shards", "error", "7 shards are missing")
    inspection = inspect(QWEN3_8B, kept, findings=[lost])
    assert codes(inspection) == ["missing_shards"]
    assert inspection.value("num_hidden_layers") == 36
    assert inspection.layers[0].count == 36
    assert inspection.checkpoint.parameters is None
    assert inspection.value("tie_word_embeddings") is False


def test_a_layer_without_tensors_is_told_where_all_files_are_there() -> None:
    kept = {name: spec for name, spec in qwen3().items() if ".layers.7." not in name}
    inspection = inspect(QWEN3_8B, kept)
    (finding,) = inspection.findings
    assert (finding.code, finding.where["layers"]) == ("layers_missing", [7])


def test_a_config_alone_gives_the_same_facts_as_with_tensors(qwen3_8b: Any) -> None:
    alone = inspect(QWEN3_8B)
    assert alone.checkpoint.parameters is None
    assert alone.block is None
    assert alone.weights is None
    differing = {name for name, fact in alone.facts.items() if fact.value != qwen3_8b.value(name)}
    assert differing == {"mtp_layers", "active_parameters", "feed_forward"}
    assert alone.layers == qwen3_8b.layers


def test_no_number_of_layers_is_a_named_reason() -> None:
    with pytest.raises(CheckpointError, match="nothing says how many layers") as caught:
        inspect({"model_type": "made_up", "num_hidden_layers": 0})
    assert caught.value.code == "config_incomplete"


@pytest.mark.parametrize("number", ["4000000", "999999999"])
def test_a_wild_layer_number_is_refused_before_anything_is_built(number: str) -> None:
    with pytest.raises(CheckpointError, match="a block is numbered"):
        inspect({"num_hidden_layers": 2}, {f"model.layers.{number}.mlp.up_proj.weight": ("F32", [2, 2])})


def test_smollm2_as_gguf(smollm2: Path) -> None:
    # HuggingFaceTB/SmolLM2-135M-Instruct: 134,515,008 parameters, 30 layers, trained for 8,192 tokens.
    inspection = inspect_checkpoint(open_checkpoint(smollm2))
    assert inspection.checkpoint.parameters == 134_515_008
    values = {name: inspection.value(name) for name in (
        "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size",
        "vocab_size", "tie_word_embeddings", "native_context", "rope_theta",
    )}  # fmt: skip
    assert list(values.values()) == [30, 9, 3, 64, 576, 49152, True, 8192, 100_000.0]
    assert inspection.weights is not None
    assert inspection.weights.total == inspection.checkpoint.tensor_bytes == 96_576_768
    assert inspection.value("quantization")["format"] == "Q4_1"
    assert not inspection.findings
