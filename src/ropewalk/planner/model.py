"""An inspection becomes the dimensions that are planned with, weights and companions included."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ropewalk.errors import CheckpointError, UsageError
from ropewalk.inspector.records import Inspection, WeightBytes
from ropewalk.inspector.wording import MAX_NAMED
from ropewalk.planner.params import estimated_weights
from ropewalk.planner.shape import Draft, ModelShape
from ropewalk.planner.verdict import errors_of, is_incomplete, stated_bytes
from ropewalk.planner.weights import is_counted

# Bytes per number of the dtypes a model computes in; narrower ones are storage only.
_COMPUTE_BYTES = {"float64": 8, "float32": 4, "F64": 8, "F32": 4}
# Activations that no class of transformers 5.24 puts behind a gate (Nemotron, Arcee, Apertus, nanochat).
_UNGATED = ("relu2", "xielu")
_PER_LAYER_GATES = frozenset({"inp_gate.weight", "per_layer_input_gate.weight"})
_NORM = re.compile(r"norm(?:_\d)?\.weight$")
_NO_WEIGHTS = WeightBytes(embedding=0, output_head=0, other=0, layers=(), experts=(), mtp=0, towers=0)


def _is_adapter(inspection: Inspection) -> CheckpointError:
    base = inspection.value("base_model")
    named = f"its base model {base}" if isinstance(base, str) and base else "its base model"
    return CheckpointError(
        f"{inspection.checkpoint.source} is an adapter: plan {named}",
        code="adapter_only",
        where={"file": inspection.checkpoint.source, "base_model": base},
    )


def shape_of(
    inspection: Inspection,
    *,
    draft: Inspection | None = None,
    projector: Inspection | None = None,
    mtp: int = 0,
) -> ModelShape:
    """Collect the dimensions of a model and what is served beside it.

    ``draft`` is a model that proposes tokens, ``projector`` a tower in a file of its own, ``mtp`` how
    many tokens the checkpoint's own MTP layers propose. Raises :class:`CheckpointError` naming a missing
    dimension, :class:`UsageError` where there are no MTP layers.
    """
    if inspection.checkpoint.kind == "adapter":
        raise _is_adapter(inspection)
    _require_rows(inspection)
    weights = inspection.weights
    shape = ModelShape(
        stored_as=inspection.checkpoint.format,
        model_type=_text_type(inspection),
        layers=inspection.layers,
        num_layers=max((index + 1 for group in inspection.layers for index in group.indices), default=0),
        hidden_size=_need(inspection, "hidden_size"),
        # GPT-2's kin state no inner width where it is four hidden ones.
        intermediate_size=_count(inspection, "intermediate_size") or _default_inner(inspection),
        vocab_size=_need(inspection, "vocab_size"),
        num_attention_heads=_count(inspection, "num_attention_heads"),
        dtype_bytes=_COMPUTE_BYTES.get(str(inspection.value("dtype")), 2),
        num_experts=_count(inspection, "num_experts"),
        num_experts_per_tok=_count(inspection, "num_experts_per_tok"),
        # Where experts have no width of their own they have the feed-forward's (Mixtral, gpt-oss).
        expert_len=_expert_len(inspection) or _count(inspection, "intermediate_size"),
        shared_expert_len=_shared_expert_len(inspection),
        tied=bool(inspection.value("tie_word_embeddings")),
        mtp_layers=_count(inspection, "mtp_layers"),
        encoder_len=_count(inspection, "max_source_positions") or None,
        active_parameters=inspection.value("active_parameters"),
        kv_lora_rank=_count(inspection, "kv_lora_rank"),
        q_lora_rank=_count(inspection, "q_lora_rank"),
        latent_key_dim=_count(inspection, "qk_nope_head_dim") + _count(inspection, "qk_rope_head_dim"),
        latent_value_dim=_count(inspection, "v_head_dim"),
        latent_rotary_dim=_count(inspection, "qk_rope_head_dim"),
        state_dtype_bytes=_COMPUTE_BYTES.get(str(inspection.value("mamba_ssm_dtype")), 2),
        weights=weights or _NO_WEIGHTS,
        has_tensors=weights is not None,
        block=inspection.block,
        delta_net=inspection.value("linear_key_head_dim") is not None,
        quantised=inspection.value("quantization") is not None,
        packed_weights=(_bits(inspection) or 8) < 8,
        rope_numbers=_rope_numbers(inspection),
        gated=not _is_plain(inspection),
        dense_blocks=_count(inspection, "first_k_dense_replace"),
        packs_experts_only=_quantised_by(inspection) == "mxfp4",
        projector_bytes=_projector_bytes(inspection, projector),
        parallel_block=_is_parallel(inspection),
        per_layer_len=_per_layer_len(inspection),
        per_layer_input_len=_count(inspection, "per_layer_input_size"),
        relative_positions=inspection.value("position_embedding") == "relative",
        encoder_only=inspection.value("model_shape") == "encoder only",
        image_tokens=_count(inspection, "image_tokens"),
        counted=is_counted(str(inspection.value("model_type")), _quantised_by(inspection)),
        scan_chunk=_count(inspection, "mamba_chunk_size") or 2048,
        sees_both_ways=inspection.value("image_attention") == "both ways",
    )
    if weights is None:
        shape = replace(shape, weights=estimated_weights(shape, bits=_bits(inspection)))
    if errors_of(inspection):
        shape = replace(shape, is_sound=False, expected_bytes=_expected_bytes(shape, inspection))
    drafts = _draft(shape, draft, mtp=mtp)
    return replace(shape, draft=drafts) if drafts else shape


def _expected_bytes(shape: ModelShape, inspection: Inspection) -> int:
    """As the index states it, else from the dimensions."""
    if not is_incomplete(inspection):
        return 0
    stated = stated_bytes(inspection)
    return stated or estimated_weights(shape, bits=_bits(inspection)).total


def _default_inner(inspection: Inspection) -> int:
    """Four hidden widths for a dense model with attention that states none and stores no other."""
    stores = inspection.weights is not None or _count(inspection, "num_experts")
    attends = _count(inspection, "num_attention_heads")
    return 0 if stores or not attends else 4 * _count(inspection, "hidden_size")


def _is_plain(inspection: Inspection) -> bool:
    """Two matrices without a gate: as the tensors show, else a LayerNorm and an activation by its name."""
    stated = str(inspection.value("feed_forward"))
    by_name = inspection.value("normalisation") == "LayerNorm" and stated.startswith(("gelu", "relu", "None"))
    return "two matrices" in stated or by_name or stated.endswith(_UNGATED)


def _expert_len(inspection: Inspection) -> int:
    """Width of an expert; of one for each sort of token together, where several are stated (ERNIE 4.5 VL)."""
    value, layers = inspection.value("moe_intermediate_size"), _count(inspection, "num_hidden_layers")
    is_by_sort = isinstance(value, list) and len(value) < layers
    return sum(value) if is_by_sort else _count(inspection, "moe_intermediate_size")


def _text_type(inspection: Inspection) -> str | None:
    value = inspection.value("model_type")
    return value if isinstance(value, str) else None


def _quantised_by(inspection: Inspection) -> str | None:
    stated = inspection.value("quantization")
    return stated.get("method") if isinstance(stated, Mapping) else None


def _projector_bytes(inspection: Inspection, projector: Inspection | None) -> int:
    """Towers that see or hear: their file, their tensors, else what the config describes."""
    if projector is not None:
        return projector.checkpoint.tensor_bytes
    if inspection.weights is not None:
        # A GGUF that brings its encoder has it among its weights.
        return 0 if inspection.weights.tensors else inspection.weights.towers
    width = _COMPUTE_BYTES.get(str(inspection.value("dtype")), 2)
    return sum(_count(inspection, f"{tower}_parameters") for tower in ("vision", "audio")) * width


def _rope_numbers(inspection: Inspection) -> int:
    """Cosines and sines that vLLM keeps: a row per position for each rope of its own (rotary_embedding/);
    linear and dynamic scaling multiply the rows, YaRN has factor x original ones."""
    blocks = inspection.value("rope_parameters")
    if not isinstance(blocks, Mapping):
        return 0
    nested = [block for block in blocks.values() if isinstance(block, Mapping)] or [blocks]
    longest, dim = _count(inspection, "max_position_embeddings"), _count(inspection, "rotary_dim")
    rows = 0
    for block in {tuple(sorted((str(k), str(v)) for k, v in one.items())): one for one in nested}.values():
        rows += _rope_rows(block, longest)
    return rows * dim


def _rope_rows(block: Mapping[str, Any], longest: int) -> int:
    factor, original = block.get("factor"), block.get("original_max_position_embeddings")
    kind = block.get("rope_type", block.get("type"))
    if isinstance(factor, int | float) and kind in ("linear", "dynamic"):
        return int(longest * factor)
    if isinstance(factor, int | float) and kind == "yarn" and isinstance(original, int):
        return int(original * factor)
    return longest


def _is_parallel(inspection: Inspection) -> bool:
    """One norm in a block with both parts: both read the same (Cohere, Falcon, Phi)."""
    if inspection.block is None or not inspection.value("feed_forward"):
        return False
    hidden = (_count(inspection, "hidden_size"),)
    norms = [t.name for t in inspection.block.tensors if t.shape == hidden and _NORM.search(t.name)]
    return len(norms) == 1


def _per_layer_len(inspection: Inspection) -> int:
    """Numbers a token of the inputs that every block gets of its own (Gemma 3n, Gemma 4)."""
    tensors = inspection.block.tensors if inspection.block else ()
    gate = next((t for t in tensors if t.name in _PER_LAYER_GATES), None)
    return 0 if gate is None else gate.shape[0] * _count(inspection, "num_hidden_layers")


def _bits(inspection: Inspection) -> float | None:
    """Bits per weight with a scale of two bytes per group; None where nothing says it is quantised.

    The block formats of four-bit floats have a scale of one byte for every 16 or 32 values.
    """
    stated = inspection.value("quantization")
    bits = stated.get("bits") if isinstance(stated, Mapping) else None
    if not isinstance(bits, int | float):
        return None
    names = {str(stated.get(key)).lower().partition("-")[0] for key in ("method", "format")}
    if names & {"mxfp4", "nvfp4"}:
        return 4.25 if "mxfp4" in names else 4.5
    group = stated.get("group_size")
    return bits + 16 / group if isinstance(group, int) and group > 0 else bits


def _draft(shape: ModelShape, draft: Inspection | None, *, mtp: int) -> Draft | None:
    if draft is not None:
        return _draft_model(shape, shape_of(draft))
    if not mtp:
        return None
    # An MTP layer attends like the last attention layer before it.
    like = [group for group in shape.layers if group.kind in ("full", "latent")]
    count = shape.mtp_layers
    if not like or not count:
        raise UsageError(
            "this checkpoint has no MTP layers to draft with", where={"field": "mtp", "mtp_layers": count}
        )
    layers = like[-1].at(tuple(range(count)))
    return Draft((layers,), shape.weights.mtp)


def _draft_model(shape: ModelShape, draft: ModelShape) -> Draft:
    """A model of its own. What it may share with the target, where both have the same table and head, is
    the embedding and the head (eagle.py, _maybe_share_embeddings)."""
    weights = draft.weights
    same = draft.vocab_size == shape.vocab_size and draft.hidden_size == shape.hidden_size
    shared = weights.embedding + weights.output_head if same else 0
    return Draft(draft.layers, weights.total, draft, shared_bytes=shared)


def _shared_expert_len(inspection: Inspection) -> int:
    stated = _count(inspection, "shared_expert_intermediate_size")
    return stated or _count(inspection, "num_shared_experts") * _count(inspection, "moe_intermediate_size")


def _need(inspection: Inspection, name: str) -> int:
    value = inspection.value(name)
    if not isinstance(value, int) or value <= 0:
        raise CheckpointError(
            f"{inspection.checkpoint.source} does not tell {name}, and no memory can be planned without it",
            code="config_missing",
            where={"field": name, "value": value},
        )
    return value


def _require_rows(inspection: Inspection) -> None:
    """Heads of unknown number or size would be priced as a cache of nothing."""
    for group in inspection.layers:
        if group.kind in ("full", "sliding", "chunked", "latent", "cross"):
            for field in ("num_key_value_heads", "head_dim_k"):
                if not getattr(group, field, 1):
                    raise CheckpointError(
                        f"{inspection.checkpoint.source} does not tell {field.removesuffix('_k')} of "
                        f"{group.count} layers, and no cache can be planned without it",
                        code="config_missing",
                        where={"field": field.removesuffix("_k"), "layers": list(group.indices[:MAX_NAMED])},
                    )


def _count(inspection: Inspection, name: str) -> int:
    value = inspection.value(name)
    return value if isinstance(value, int) else 0
