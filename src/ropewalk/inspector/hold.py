"""What a checkpoint says held against what its tensors are; the tensors are right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ropewalk.findings import Finding, Severity
from ropewalk.inspector.class_defaults import SOURCE
from ropewalk.inspector.evidence import BlockEvidence
from ropewalk.inspector.heads import Heads, stated_heads
from ropewalk.inspector.layers import Layer
from ropewalk.inspector.patterns import LayerWord
from ropewalk.inspector.records import Fact
from ropewalk.inspector.settings import Settings

_PAD_ROWS = 1024  # vocabularies are padded to multiples of up to this many rows
# The tensor whose shape shows a field, by role.
_SHOWN_BY = {
    "num_attention_heads": ("q", "o", "qkv"),
    "num_key_value_heads": ("k", "qkv"),
    "head_dim_k": ("k_norm", "k", "q_norm", "q"),
    "head_dim_v": ("v", "o"),
}
_NAMES = {"head_dim_k": "head_dim", "head_dim_v": "v_head_dim"}


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One field in which the tensors differ from what is stated."""

    field: str
    stated: Any
    proven: Any
    tensor: str
    num_layers: int


def mismatch(
    settings: Settings, found: Disagreement, *, severity: Severity = "error", key: str | None = None
) -> Finding:
    """The finding of a disagreement; a class default that is contradicted is a warning of its own."""
    fact = settings.fact(found.field)
    where = {
        "field": key or (fact.detail if fact else None) or found.field,
        settings.source: found.stated,
        "tensors": found.proven,
        "tensor": found.tensor,
        "num_layers": found.num_layers,
    }
    if fact is not None and fact.source == "default":
        message = (
            f"config.json has no {found.field}; {SOURCE} would assume {found.stated}, the tensors have "
            f"{found.proven}"
        )
        return Finding("default_contradicted", "warning", message, where)
    message = (
        f"{where['field']} is {found.stated}, but {found.tensor} says {found.proven}"
        f"{f' ({found.num_layers} layers)' if found.num_layers > 1 else ''}; {found.proven} is used"
    )
    return Finding("config_tensor_mismatch", severity, message, where)


def hold_heads(
    settings: Settings,
    words: Sequence[LayerWord],
    layers: Sequence[Layer],
    evidence: Mapping[int, BlockEvidence],
    *,
    prefix: str,
) -> list[Disagreement]:
    """Heads and head sizes of all layers; one disagreement per field and pair of values."""
    found: dict[tuple[str, Any, Any], list[int]] = {}
    for index, layer in enumerate(layers):
        if index not in evidence or layer.kind not in ("full", "sliding", "chunked"):
            continue
        stated = stated_heads(settings, index, words[index])
        for item in fields(Heads):
            name = _NAMES.get(item.name, item.name)
            said, proven = getattr(stated, item.name), getattr(layer.heads, item.name)
            if settings.value(name) is not None and None not in (said, proven) and said != proven:
                found.setdefault((item.name, said, proven), []).append(index)
    return [
        Disagreement(
            _NAMES.get(name, name),
            said,
            proven,
            _tensor(evidence[where[0]], name, prefix, where[0]),
            len(where),
        )
        for (name, said, proven), where in found.items()
    ]


def _tensor(block: BlockEvidence, name: str, prefix: str, index: int) -> str:
    weight = next((block.roles[role] for role in _SHOWN_BY[name] if role in block.roles), None)
    return f"{prefix}{index}.{weight.name if weight else ''}"


def hold_widths(
    settings: Settings, evidence: Mapping[int, BlockEvidence], *, prefix: str, hidden_size: int | None
) -> list[Disagreement]:
    """Feed-forward widths, numbers of experts, ranks of latent attention, where the tensors show them.

    Layers may differ in width: a stated one that some layer has is right.
    """
    found: list[Disagreement] = []
    shown_widths = _widths(evidence, hidden_size)
    if settings.value("moe_intermediate_size") is None:  # many call the width of the experts so
        for index, width in shown_widths.get("moe_intermediate_size", {}).items():
            shown_widths.setdefault("intermediate_size", {}).setdefault(index, width)
    for name, shown in shown_widths.items():
        stated = settings.value(name)
        said = stated if isinstance(stated, list) else [stated]
        if stated is None or not shown or set(shown.values()) & set(said):
            continue
        index, proven = next(iter(shown.items()))
        found.append(Disagreement(name, stated, proven, f"{prefix}{index}", len(shown)))
    return found


def _widths(evidence: Mapping[int, BlockEvidence], hidden_size: int | None) -> dict[str, dict[int, int]]:
    shown: dict[str, dict[int, int]] = {}
    for index, block in evidence.items():
        for name, value in block_widths(block, hidden_size).items():
            shown.setdefault(name, {})[index] = value
    return shown


def block_widths(block: BlockEvidence, hidden_size: int | None) -> dict[str, int]:
    """Widths that one block shows, by the field that states them."""
    shown: dict[str, int] = {}
    dense = block.inputs("down", hidden_size)
    if dense:
        shown["intermediate_size"] = dense
    for role in ("expert_down", "down"):
        weight = block.roles.get(role)
        stacked = weight is not None and len(weight.shape) == 3
        if weight is None or not (stacked or role == "expert_down"):
            continue
        sides = weight.shape[-2:]
        width = sides[0] if sides[1] == hidden_size and sides[0] != hidden_size else sides[-1]
        shown["moe_intermediate_size"] = width
        shown["num_experts"] = weight.shape[0] if stacked else weight.count
    for name, role in (("kv_lora_rank", "kv_a_norm"), ("q_lora_rank", "q_a_norm")):
        width_of = block.width(role)
        if width_of:
            shown[name] = width_of
    return shown


def hold_vocabulary(stated: Fact | None, rows: int | None, tensor: str) -> tuple[Fact | None, list[Finding]]:
    """The vocabulary from the rows of the embedding; a few more rows than stated are padding."""
    if rows is None:
        return stated, []
    proven = Fact(rows, "tensor", tensor)
    if stated is None or stated.value is None or stated.value == rows:
        return proven, []
    where = {"field": stated.detail, stated.source: stated.value, "tensors": rows, "tensor": tensor}
    if stated.source == "default":
        return proven, []
    if 0 < rows - stated.value < _PAD_ROWS:
        message = (
            f"{tensor} has {rows - stated.value} rows more than {stated.detail} = {stated.value}: padding"
        )
        return stated, [Finding("vocabulary_padded", "info", message, where)]
    message = f"{stated.detail} is {stated.value}, but {tensor} has {rows} rows; {rows} is used"
    return proven, [Finding("config_tensor_mismatch", "error", message, where)]


def is_incomplete(findings: Iterable[Finding]) -> bool:
    """Whether tensors are known to be missing, so that absence proves nothing."""
    codes = {"missing_shards", "index_tensor_missing", "header_unreadable", "shard_unreadable"}
    return any(finding.code in codes for finding in findings)
