"""What a checkpoint says held against what its tensors are; the tensors are right."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ropewalk.findings import Finding, Severity
from ropewalk.inspector.derive.class_defaults import SOURCE
from ropewalk.inspector.derive.evidence import OBSERVED_IN, BlockEvidence
from ropewalk.inspector.derive.heads import Heads, declared_heads, is_packing_factor, prove_heads
from ropewalk.inspector.derive.observed import Observed
from ropewalk.inspector.derive.packing import Weight
from ropewalk.inspector.derive.parameters import PAD_ROWS
from ropewalk.inspector.derive.patterns import LayerWord
from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.layer_kinds import AnyLayer
from ropewalk.inspector.records import Fact

# Findings of the readers that mean that tensors of the checkpoint were not seen.
_LOSSES = frozenset(
    {
        "missing_shards", "single_shard", "index_tensor_missing", "lfs_pointer", "not_safetensors",
        "header_length_exceeds_file", "header_too_large", "header_not_json", "header_malformed",
    }
)  # fmt: skip
_NAMES = {"head_dim_k": "head_dim", "head_dim_v": "v_head_dim"}


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One field in which the tensors differ from what is stated.

    ``doubt`` is why the tensors are not trusted here and the stated value is kept; ``is_partial`` says that
    layers of other kinds have the stated value.
    """

    field: str
    declared: Any
    proven: Any
    tensor: str
    num_layers: int
    doubt: str | None = None
    is_partial: bool = False


def mismatch(settings: Settings, found: Disagreement) -> Finding:
    """The finding of a disagreement; a class default that is contradicted is a warning of its own."""
    fact = settings.fact(found.field)
    where = {
        "field": (fact.detail if fact else None) or found.field,
        settings.source: found.declared,
        "tensors": found.proven,
        "tensor": found.tensor,
        "num_layers": found.num_layers,
    }
    if fact is not None and fact.source == "default":
        message = (
            f"config.json has no {found.field}; {SOURCE} would assume {found.declared}, the tensors have "
            f"{found.proven}"
        )
        return Finding("default_contradicted", "warning", message, where)
    if found.doubt is not None:
        message = (
            f"{where['field']} is {found.declared}, {found.tensor} would say {found.proven}: {found.doubt}"
        )
        kept = {"doubted": "tensors", "used": found.declared}
        return Finding("config_tensor_mismatch", "warning", message, where | kept)
    message = (
        f"{where['field']} is {found.declared}, but {found.tensor} says {found.proven}"
        f"{f' ({found.num_layers} layers)' if found.num_layers > 1 else ''}; {found.proven} is used"
    )
    severity: Severity = "warning" if found.is_partial else "error"
    return Finding("config_tensor_mismatch", severity, message, where)


_PACKING = "its values are packed, and by this factor the packing may be unknown; the config's is used"


def reconcile_heads(
    settings: Settings,
    words: Sequence[LayerWord],
    layers: Sequence[AnyLayer],
    evidence: Mapping[int, BlockEvidence],
    *,
    hidden_size: int | None,
    prefix: str,
) -> list[Disagreement]:
    """Heads and head sizes of all layers; one disagreement per field and pair of values.

    Where the tensors are packed and the layers kept the stated value, the packing is what is doubted.
    """
    found: dict[tuple[str, Any, Any, bool], list[int]] = {}
    agreeing: set[str] = set()
    for index, layer in enumerate(layers):
        if index not in evidence or layer.kind not in ("full", "sliding", "chunked"):
            continue
        declared = declared_heads(settings, index, words[index])
        shapes = prove_heads(evidence[index], declared, hidden_size)
        for item in fields(Heads):
            name = _NAMES.get(item.name, item.name)
            said, kept, proven = (getattr(heads, item.name) for heads in (declared, layer, shapes))
            if settings.value(name) is None or None in (said, proven):
                continue
            if said == proven:
                agreeing.add(item.name)
            else:
                found.setdefault((item.name, said, proven, said == kept), []).append(index)
    return [
        Disagreement(
            _NAMES.get(name, name),
            said,
            proven,
            _tensor(evidence[where[0]], _NAMES.get(name, name), prefix, where[0]),
            len(where),
            doubt=_PACKING if is_kept else None,
            is_partial=name in agreeing and _is_one_kind(where, words),
        )
        for (name, said, proven, is_kept), where in found.items()
    ]


def null_head_dim(settings: Settings, facts: Mapping[str, Fact], *, has_tensors: bool) -> list[Finding]:
    """``head_dim: null`` where the tensors have another size than the quotient that engines then take."""
    declared, proven = settings.fact("head_dim"), facts["head_dim"]
    hidden, heads = facts["hidden_size"].value, facts["num_attention_heads"].value
    if declared is None or declared.value is not None or declared.source != "config" or not has_tensors:
        return []
    if not (isinstance(hidden, int) and isinstance(heads, int) and heads > 0 and proven.source == "tensor"):
        return []
    quotient = hidden // heads
    if proven.value in (None, quotient):
        return []
    message = (
        f"{declared.detail} is null: engines take hidden_size / num_attention_heads = {quotient}, but "
        f"{proven.detail} says {proven.value}, and they fail to load it; write {proven.value}"
    )
    where = {"field": declared.detail, "config": None, "derived": quotient, "tensors": proven.value}
    return [Finding("config_tensor_mismatch", "error", message, {**where, "tensor": proven.detail})]


def _is_one_kind(where: Sequence[int], words: Sequence[LayerWord]) -> bool:
    """Whether these layers are all those of some kinds: the config then speaks of the others alone."""
    kinds = {words[index] for index in where}
    return len(kinds) == 1 and all(index in set(where) for index, word in enumerate(words) if word in kinds)


def _tensor(block: BlockEvidence, name: str, prefix: str, index: int) -> str:
    weight = next((block.roles[role] for role in OBSERVED_IN[name] if role in block.roles), None)
    return f"{prefix}{index}.{weight.name if weight else ''}"


def reconcile_observed(settings: Settings, observed: Mapping[str, Observed]) -> list[Disagreement]:
    """Widths, numbers of experts, sizes of latent attention.

    Layers may differ: a stated value that some layer shows is right.
    """
    found: list[Disagreement] = []
    for name, item in observed.items():
        declared = settings.value(name)
        said = declared if isinstance(declared, list) else [declared]
        if declared is not None and not set(item.values.values()) & set(said):
            doubt = _PACKING if item.assumed and is_packing_factor(declared, item.usual) else None
            found.append(Disagreement(name, declared, item.usual, item.tensor, len(item.values), doubt=doubt))
    return found


def reconcile_vocabulary(
    declared: Fact | None, table: Weight | None, heads: Collection[int]
) -> tuple[Fact | None, list[Finding]]:
    """The vocabulary from the rows of the embedding; a few more rows than stated are padding.

    Where an output head has as many rows as are stated, the embedding holds other tokens as well. ``heads``
    are the rows of the output heads.
    """
    if table is None:
        return declared, []
    rows, tensor = table.shape[0], table.name
    proven = Fact(rows, "tensor", tensor)
    if declared is None or declared.value is None or declared.value == rows:
        return proven, []
    where = {"field": declared.detail, declared.source: declared.value, "tensors": rows, "tensor": tensor}
    if declared.source == "default":
        return proven, []
    if declared.value in heads:
        return declared, []
    if 0 < rows - declared.value < PAD_ROWS:
        more = rows - declared.value
        message = f"{tensor} has {more} rows more than {declared.detail} = {declared.value}: padding"
        return declared, [Finding("vocabulary_padded", "info", message, where)]
    message = f"{declared.detail} is {declared.value}, but {tensor} has {rows} rows; {rows} is used"
    is_tokenizer = declared.detail == "tokenizer.ggml.tokens"  # not the model's own word about itself
    return proven, [Finding("config_tensor_mismatch", "warning" if is_tokenizer else "error", message, where)]


def is_incomplete(findings: Iterable[Finding]) -> bool:
    """Whether tensors are known to be missing, so that absence proves nothing."""
    return any(finding.code in _LOSSES for finding in findings)
