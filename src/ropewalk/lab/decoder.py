"""A checkpoint to the decoder that :mod:`ropewalk.lab.forward` can run, or a refusal that says why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ropewalk.errors import CheckpointError, UsageError
from ropewalk.inspector.layer_kinds import LayerGroup
from ropewalk.inspector.records import Checkpoint, Inspection
from ropewalk.inspector.rope_blocks import full_block
from ropewalk.planner.rope.frequencies import Rotation, RotationInputs, rotation

# How a family pairs the numbers of a head, and where its norms stand, is in no tensor and no field. These
# were read in transformers 5.19 (models/*/modeling_*.py): norm before each half, halves rotated, SwiGLU.
MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3", "smollm3")
_RMS_NORM_EPS = 1e-6  # the class default of all five, configuration_*.py
DTYPES = ("F32", "BF16", "F16")
_REQUIRED = frozenset(
    f"{name}.weight"
    for name in (
        "input_layernorm", "post_attention_layernorm",
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
        "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
    )
)  # fmt: skip
_OPTIONAL = frozenset(
    {"self_attn.q_norm.weight", "self_attn.k_norm.weight", "self_attn.rotary_emb.inv_freq"}
    | {f"{name.removesuffix('.weight')}.bias" for name in _REQUIRED if "proj" in name}
)


@dataclass(frozen=True, slots=True)
class Decoder:
    """What the forward pass needs beside weights. ``prefix`` leads the names of all tensors but the head,
    ``folder`` holds the files."""

    folder: Path
    prefix: str
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rotary_dim: int
    vocab_size: int
    rms_norm_eps: float
    rope_block: dict[str, Any]
    max_position_embeddings: int | None
    layers: tuple[LayerGroup, ...]

    @property
    def gqa_ratio(self) -> int:
        """Query heads that read one KV head."""
        return self.num_attention_heads // self.num_key_value_heads

    def group(self, layer: int) -> LayerGroup:
        """The layer record that says what this layer keeps."""
        return next(group for group in self.layers if layer in group.indices)

    def block(self, layer: int) -> str:
        """What the names of the tensors of this layer begin with."""
        return f"{self.prefix}layers.{layer}."

    def rotation(self, seq_len: int) -> Rotation:
        """The rotation in force for a prompt of this length, as transformers computes it.

        Raises :class:`CheckpointError` where the rope block cannot be computed.
        """
        inputs = RotationInputs(
            head_dim=self.head_dim,
            rotary_dim=self.rotary_dim,
            max_position_embeddings=self.max_position_embeddings,
            seq_len=seq_len,
        )
        try:
            return rotation(self.rope_block, inputs)
        except (KeyError, ValueError, TypeError, ArithmeticError) as error:
            raise CheckpointError(
                f"the rope block {self.rope_block} cannot be computed: {type(error).__name__} {error}",
                code="rope_block_invalid",
                where={"field": "rope_parameters", "rope_type": self.rope_block.get("rope_type")},
            ) from error


def decoder_of(checkpoint: Checkpoint, inspection: Inspection) -> Decoder:
    """The decoder, checked. Raises :class:`UsageError` ``attend_unsupported`` for a layout that the forward
    pass does not cover, :class:`CheckpointError` for a checkpoint that contradicts itself."""
    for finding in inspection.findings:
        if finding.severity == "error":
            raise CheckpointError(finding.message, code=finding.code, where=finding.where)
    reason, path = next(_reasons(checkpoint, inspection), None), checkpoint.path
    if path is None:
        reason = reason or f"it is not on this machine; fetch it with `hf download {checkpoint.source}`"
    if reason is not None or path is None:
        raise UsageError(
            f"attend cannot run {checkpoint.source}: {reason}",
            code="attend_unsupported",
            where={"model_type": inspection.value("model_type"), "supported": list(MODEL_TYPES)},
        )
    return Decoder(
        folder=path if path.is_dir() else path.parent,
        prefix=_prefix(checkpoint),
        num_hidden_layers=inspection.value("num_hidden_layers"),
        num_attention_heads=inspection.value("num_attention_heads"),
        num_key_value_heads=inspection.value("num_key_value_heads"),
        head_dim=inspection.value("head_dim"),
        rotary_dim=inspection.value("rotary_dim"),
        vocab_size=inspection.value("vocab_size"),
        rms_norm_eps=float(checkpoint.config.get("rms_norm_eps") or _RMS_NORM_EPS),
        rope_block=full_block(inspection.value("rope_parameters")),
        max_position_embeddings=inspection.value("max_position_embeddings"),
        layers=inspection.layers,
    )


def _reasons(checkpoint: Checkpoint, inspection: Inspection) -> Iterator[str]:
    if checkpoint.format == "gguf":
        yield "the weights of a GGUF are packed; use the safetensors folder that it was made from"
    if checkpoint.format == "config":
        yield "there are no weights beside the config"
    model_type = inspection.value("model_type")
    if model_type not in MODEL_TYPES:
        yield f"model_type {model_type} is none of {', '.join(MODEL_TYPES)}"
    expected = {"normalisation": "RMSNorm", "feed_forward": "gated, silu", "model_shape": "decoder only"}
    for name, wanted in expected.items():
        if inspection.value(name) != wanted:
            yield f"{name} is {inspection.value(name)}, not {wanted}"
    if not full_block(inspection.value("rope_parameters")):
        yield "it has no rotary positions"
    for group in inspection.layers:
        if group.kind not in ("full", "sliding"):
            yield f"layer {group.indices[0]} keeps {group.kind} attention"
    yield from _tensor_reasons(checkpoint, inspection)


def _tensor_reasons(checkpoint: Checkpoint, inspection: Inspection) -> Iterator[str]:
    """Every block must hold the tensors of the layout and no others, in floating point."""
    blocks = f"{_prefix(checkpoint)}layers."
    found: dict[str, set[str]] = {}
    for tensor in checkpoint.tensors:
        if tensor.name.startswith(blocks):
            layer, _, name = tensor.name.removeprefix(blocks).partition(".")
            found.setdefault(layer, set()).add(name)
            if tensor.dtype not in DTYPES:
                yield f"{tensor.name} is stored as {tensor.dtype}, not {', '.join(DTYPES)}"
    for layer in map(str, range(inspection.value("num_hidden_layers"))):
        names = found.get(layer, set())
        for name in sorted(_REQUIRED - names):
            yield f"layer {layer} has no {name}"
        for name in sorted(names - _REQUIRED - _OPTIONAL):
            yield f"layer {layer} holds {name}, which the forward pass does not know"


def _prefix(checkpoint: Checkpoint) -> str:
    """``model.`` as with a head, nothing where the bare model was saved."""
    return "model." if checkpoint.tensors.get("model.embed_tokens.weight") else ""
