"""Checkpoint to inspection: settings and tensors held against each other, every fact with its source."""

from __future__ import annotations

from collections.abc import Sequence

from ropewalk.findings import by_severity
from ropewalk.inspector.configs import read_config
from ropewalk.inspector.evidence import BlockEvidence, layer_evidence
from ropewalk.inspector.gguf_config import read_gguf
from ropewalk.inspector.heads import Heads, prove_heads
from ropewalk.inspector.names import Row, sort_names
from ropewalk.inspector.packing import PackingHint, unpack
from ropewalk.inspector.places import Places, place
from ropewalk.inspector.records import (
    Checkpoint,
    CheckpointSummary,
    DtypeTotal,
    Fact,
    Inspection,
    LayerGroup,
    WeightBytes,
)
from ropewalk.inspector.settings import Settings


def inspect_checkpoint(checkpoint: Checkpoint) -> Inspection:
    """What a checkpoint is. Raises :class:`CheckpointError` where there is no record to give."""
    settings = read_gguf(checkpoint.gguf) if checkpoint.format == "gguf" else read_config(checkpoint.config)
    names = sort_names(checkpoint.tensors)
    places = place(names, num_hidden_layers=settings.integer("num_hidden_layers"))
    evidence = layer_evidence(places.layers, PackingHint())
    facts = _facts(settings, places, evidence)
    layers = _layers(facts)
    return Inspection(
        checkpoint=_summary(checkpoint, places, evidence),
        facts=facts,
        layers=layers,
        block=None,
        weights=_weights(places) if len(checkpoint.tensors) else None,
        findings=by_severity(checkpoint.findings),
    )


def _facts(settings: Settings, places: Places, evidence: dict[int, BlockEvidence]) -> dict[str, Fact]:
    facts = dict(settings.facts)
    block = settings.block
    facts.setdefault("rope_theta", Fact(block.get("rope_theta"), "config"))
    facts["rope_scaling"] = Fact(block.get("rope_scaling"), "config")
    facts["architecture"] = Fact(settings.architecture, "config")
    facts["model_type"] = Fact(settings.model_type, "config")
    hidden = settings.integer("hidden_size")
    queries = settings.integer("num_attention_heads")
    size = settings.integer("head_dim") or (hidden // queries if hidden and queries else None)
    stated = Heads(queries, settings.integer("num_key_value_heads") or queries, size, size)
    proven = stated
    if evidence:
        proven = prove_heads(next(iter(evidence.values())), stated, hidden)
        facts["num_hidden_layers"] = Fact(len(places.layers), "tensor")
    facts["num_attention_heads"] = Fact(proven.num_attention_heads, "tensor")
    facts["num_key_value_heads"] = Fact(proven.num_key_value_heads, "tensor")
    facts["head_dim"] = Fact(proven.head_dim_k, "tensor")
    if proven.num_attention_heads and proven.num_key_value_heads:
        facts["gqa_ratio"] = Fact(proven.num_attention_heads // proven.num_key_value_heads, "derived")
    if places.layers:
        facts["tie_word_embeddings"] = Fact(not places.output_head, "tensor")
    facts.setdefault("native_context", facts.get("max_position_embeddings", Fact(None, "config")))
    facts.setdefault("supported_context", facts["native_context"])
    return facts


def _layers(facts: dict[str, Fact]) -> tuple[LayerGroup, ...]:
    count = facts["num_hidden_layers"].value if "num_hidden_layers" in facts else 0
    size = facts["head_dim"].value
    return (
        LayerGroup(
            "full", count, tuple(range(count)), facts["num_attention_heads"].value,
            facts["num_key_value_heads"].value, size, size, rotary=True,
        ),
    )  # fmt: skip


def _summary(checkpoint: Checkpoint, places: Places, evidence: dict[int, BlockEvidence]) -> CheckpointSummary:
    table = checkpoint.tensors
    dtypes: dict[str, list[int]] = {}
    for dtype, nbytes in zip(table.dtypes, table.nbytes, strict=True):
        total = dtypes.setdefault(dtype, [0, 0])
        total[0] += 1
        total[1] += nbytes
    loose = places.embedding + places.output_head + places.other + places.mtp + places.towers
    loose += [row for rows in places.mtp_layers.values() for row in rows]
    parameters = sum(weight.total or 0 for block in evidence.values() for weight in block.weights)
    parameters += sum(weight.total or 0 for weight in unpack(loose, PackingHint()))
    return CheckpointSummary(
        source=checkpoint.source,
        kind="model",
        format=checkpoint.format,
        files=checkpoint.files,
        num_tensors=len(table),
        tensor_bytes=table.total_bytes,
        stored_elements=sum(tensor.elements for tensor in table),
        parameters=parameters if len(table) else None,
        dtypes={dtype: DtypeTotal(*total) for dtype, total in sorted(dtypes.items())},
    )


def _weights(places: Places) -> WeightBytes:
    def total(rows: Sequence[Row]) -> int:
        return sum(row.nbytes for row in rows)

    return WeightBytes(
        embedding=total(places.embedding),
        output_head=total(places.output_head),
        other=total(places.other),
        layers=tuple(total(rows) for rows in places.layers.values()),
        experts=tuple(
            total([row for row in rows if "experts." in row.name]) for rows in places.layers.values()
        ),
        mtp=total(places.mtp) + sum(total(rows) for rows in places.mtp_layers.values()),
        towers=total(places.towers),
    )
