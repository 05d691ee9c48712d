"""The page of ``ropewalk inspect``: what a checkpoint is, on eight lines, and its facts in groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from ropewalk.engines import engine_of
from ropewalk.findings import has_error
from ropewalk.inspector.records import Block as LayerBlock
from ropewalk.inspector.records import CheckpointSummary, Fact, Inspection
from ropewalk.inspector.survey import CheckpointList
from ropewalk.planner.cache_summary import CacheSummary
from ropewalk.report import layers
from ropewalk.report.figures import per_token, plural, short_name, value_text
from ropewalk.report.page import (
    Bar,
    Block,
    Line,
    Page,
    fields,
    findings_block,
    parts,
    soft,
    stack,
    strong,
    table,
    words,
)
from ropewalk.units import format_bytes, format_count, format_tokens

_UNKNOWN = "unknown"
# The first group with a word that the fact's name holds.
_GROUPS = {
    "identity": ("architecture", "model_type", "quantization", "dtype", "kind", "arch"),
    "positions": ("rope", "rotary", "context", "position", "alibi", "yarn"),
    "experts": ("expert", "moe", "router"),
    "attention": (
        "attention", "head", "gqa", "window", "layer_types", "kv_", "qk_", "q_lora", "chunk", "latent",
    ),
    "embedding": ("vocab", "embedding", "tie_"),
}  # fmt: skip


def inspection_page(inspection: Inspection, *, kept: CacheSummary | None = None) -> Page:
    """The page; findings come first where one is an error, last otherwise."""
    findings = ("findings", findings_block(inspection.findings))
    rows = list(_rows(inspection, kept))
    rows = [findings, *rows] if has_error(inspection.findings) else [*rows, findings]
    return Page((fields(rows),), title=_title(inspection.checkpoint.source))


def facts_page(inspection: Inspection) -> Page:
    """Every fact with its source and the tensor, key or rule that it was read from; unknown ones last."""
    known = {name: fact for name, fact in inspection.facts.items() if fact.value is not None}
    rows = sorted(known.items(), key=lambda item: (_group(item[0]), item[0]))
    shown = {"read_by": ", ".join(_readers(inspection)) or "none"}
    listed = [
        (
            _group_name(name),
            strong(name),
            shown.get(name) or value_text(fact.value),
            fact.source,
            soft(_detail(name, fact)),
        )
        for name, fact in rows
    ]
    unknown = sorted(inspection.facts.keys() - known.keys())
    notes = [f"unknown or absent: {', '.join(unknown)}"] if unknown else []
    return Page((table(" | fact | *value | from | *detail", listed, *notes, merge=True),), is_list=True)


def list_page(listed: CheckpointList) -> Page:
    """The checkpoints of a folder, one a line; name one of them to see it whole."""
    rows = [
        (
            strong(one.name),
            one.architecture or "",
            one.type or "",
            "" if one.bits_per_weight is None else f"{one.bits_per_weight:.2f}",
            "" if one.bytes is None else format_bytes(one.bytes),
            soft(one.error or ("" if one.kind in (None, "model") else str(one.kind))),
        )
        for one in listed.checkpoints
    ]
    notes = ["there are more than are listed"] if listed.more else []
    heads = "checkpoint | architecture | type | >bits per weight | >bytes | *"
    return Page((table(heads, rows, *notes),), title=_title(listed.source), is_list=True)


def grouped_facts(facts: Mapping[str, Fact]) -> list[tuple[str, list[tuple[str, Fact]]]]:
    """Known facts by group, and last the unknown ones; within a group by name."""
    known = [(name, fact) for name, fact in facts.items() if fact.value is not None]
    known.sort(key=lambda item: (_group(item[0]), item[0]))
    groups = [(head, list(members)) for head, members in groupby(known, lambda item: _group_name(item[0]))]
    unknown = sorted((name, fact) for name, fact in facts.items() if fact.value is None)
    return [*groups, ("unknown or absent", unknown)] if unknown else groups


def _group_name(name: str) -> str:
    return (*_GROUPS, "shape")[_group(name)]


def _group(name: str) -> int:
    fits = (place for place, heads in enumerate(_GROUPS.values()) if any(head in name for head in heads))
    return next(fits, len(_GROUPS))


def _detail(name: str, fact: Fact) -> str:
    """The detail without what the line says already."""
    return (fact.detail or "").removesuffix(f": {name}")


def _title(source: str) -> Line:
    name = short_name(source)
    return strong(source) if name == source else words((name, "strong"), (f"  {source}", "soft"))


def _rows(inspection: Inspection, kept: CacheSummary | None) -> Iterator[tuple[str, Block]]:
    yield "is", parts(each=_identity(inspection))
    yield "reaches", parts(each=_reach(inspection))
    yield "rotates", parts(each=_rope(inspection))
    if inspection.layers:
        strip = words((layers.strip(inspection.layers), "bar"))
        yield "attends", stack(parts(each=_attention(inspection)), layers.words(inspection.layers), strip)
    if inspection.value("read_by") is not None:
        yield "read by", ", ".join(_readers(inspection)) or "no engine that is known here"
    if kept:
        yield "keeps", parts(each=_kept(kept))
    yield "embeds", parts(each=_embedding(inspection))
    if inspection.value("num_experts"):
        yield "routes", parts(each=_experts(inspection))
    if inspection.block:
        yield "block", _block(inspection.block)


def _readers(inspection: Inspection) -> Iterator[str]:
    """The engines that read this format and quantisation, by the version that says so."""
    for one in inspection.value("read_by") or ():
        if one["reads"] is False:
            continue
        engine = engine_of(one["engine"])
        notes = [] if engine.is_served else ["planned only"]
        notes += ["not known of this quantisation"] if one["reads"] is None else []
        version = f" {one['version']}" if one["version"] else ""
        yield f"{engine.name}{version}" + (f" ({', '.join(notes)})" if notes else "")


def _identity(inspection: Inspection) -> Iterator[str]:
    summary = inspection.checkpoint
    yield value_text(inspection.value("architecture") or inspection.value("model_type"), _UNKNOWN)
    if summary.kind != "model":
        yield f"kind: {summary.kind}"
    yield f"{format_count(summary.parameters)} parameters" if summary.parameters else "parameters unknown"
    quantization = inspection.value("quantization")
    if quantization and quantization != summary.format:  # a GGUF says it by its dtypes
        yield _quantization(quantization)
    yield ", ".join(_dtypes(summary)) or summary.format
    if summary.num_tensors:
        yield f"{format_bytes(summary.tensor_bytes)} in {plural(len(summary.files), 'file')}"
        yield plural(summary.num_tensors, "tensor")
    else:
        yield "no tensor read"


def _dtypes(summary: CheckpointSummary) -> list[str]:
    """The dtypes by bytes; those below one percent of the largest are only counted."""
    ordered = sorted(summary.dtypes.items(), key=lambda item: -item[1].bytes)
    large = [name for name, total in ordered if total.bytes * 100 >= ordered[0][1].bytes]
    return [*large, f"{len(ordered) - len(large)} more"] if len(large) < len(ordered) else large


def _quantization(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value.get("quant_method") or value.get("method") or "quantized")
    return str(value)


def _reach(inspection: Inspection) -> Iterator[str]:
    """The three lengths; one that repeats an earlier one is left out."""
    seen: set[int] = set()
    for name, says in (
        ("native_context", "trained"),
        ("max_position_embeddings", "in the config"),
        ("supported_context", "published"),
    ):
        value = inspection.value(name)
        if isinstance(value, int) and value not in seen:
            yield f"{format_tokens(value)} tokens {says}" if not seen else f"{format_tokens(value)} {says}"
            seen.add(value)
    if not seen:
        yield "unknown: nothing in the checkpoint says"


def _rope(inspection: Inspection) -> Iterator[str]:
    theta, scaling = inspection.value("rope_theta"), inspection.value("rope_scaling")
    if theta is None and scaling is None:
        yield "no rotary positions known"
        return
    yield f"theta {theta:,.0f}" if isinstance(theta, int | float) else "theta unknown"
    yield f"scaling {_scaling(scaling)}"


def _scaling(value: Any) -> str:
    if not isinstance(value, dict):
        return "none" if value is None else str(value)
    kind = value.get("rope_type") or value.get("type") or "of no stated type"
    factor = value.get("factor")
    origin = value.get("original_max_position_embeddings")
    text = f"{kind} {factor:g}" if isinstance(factor, int | float) else str(kind)
    return f"{text} from {origin:,}" if isinstance(origin, int) else text


def _attention(inspection: Inspection) -> Iterator[str]:
    query, key_value = inspection.value("num_attention_heads"), inspection.value("num_key_value_heads")
    yield f"{value_text(inspection.value('num_hidden_layers'), _UNKNOWN)} layers"
    latent = next((group for group in inspection.layers if group.kind == "latent"), None)
    if latent and query:
        yield f"{query} query heads on one latent of {latent.head_dim_k}"
    elif query and key_value:
        ratio = inspection.value("gqa_ratio")
        shared = f" (GQA {ratio})" if ratio and ratio != 1 else ""
        yield f"{query} query heads on {plural(key_value, 'KV head')}{shared}"
    if head_dim := inspection.value("head_dim"):
        yield f"head_dim {head_dim}"
    if inspection.value("qk_norm"):
        yield "QK-norm"


def _kept(kept: CacheSummary) -> Iterator[str]:
    yield from per_token(kept.bytes_per_token, kept.windows, kept.bytes_per_token_beyond, kept.cache_type)
    if kept.state_bytes:
        yield f"{format_bytes(kept.state_bytes)} of state per sequence"
    for tokens, size in kept.at:
        yield f"{format_bytes(size)} at {format_tokens(tokens)}"


def _embedding(inspection: Inspection) -> Iterator[str]:
    vocabulary, hidden = inspection.value("vocab_size"), inspection.value("hidden_size")
    yield f"{value_text(vocabulary, _UNKNOWN)} x {value_text(hidden, _UNKNOWN)}"
    tied = inspection.facts.get("tie_word_embeddings")
    if tied is not None and tied.value is not None:
        detail = f" ({tied.detail})" if tied.detail else ""
        yield f"{'output head tied to it' if tied.value else 'output head separate'}{detail}"


def _experts(inspection: Inspection) -> Iterator[str]:
    number = inspection.value("num_experts")
    yield plural(number, "expert") if isinstance(number, int) else f"{value_text(number)} experts"
    if per_token := inspection.value("num_experts_per_tok"):
        yield f"{value_text(per_token)} per token"


def _block(block: LayerBlock) -> Block:
    rows = [
        (name, f"{count / (block.parameters or 1):.1%}", Bar(*[count / (block.parameters or 1)] * 2))
        for name, count in (
            ("attention", block.attention_parameters),
            ("feed-forward", block.feed_forward_parameters),
        )
    ]
    return stack(f"{block.parameters:,} parameters per block (most common kind)", table("|>|", rows))
