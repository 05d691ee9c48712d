"""The page of ``ropewalk inspect``: what a checkpoint is, on eight lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ropewalk.findings import has_error
from ropewalk.inspector.records import Block, CheckpointSummary, Inspection
from ropewalk.planner.cache_summary import CacheSummary
from ropewalk.report import layers
from ropewalk.report.layout import BAR_STYLE, Parts, bar, columns, findings_block, labelled, short_name
from ropewalk.units import format_bytes, format_count, format_tokens

_BAR_WIDTH = 18
Row = tuple[str, RenderableType]


def inspection_page(inspection: Inspection, *, kept: CacheSummary | None = None) -> RenderableType:
    """The page; findings come first where one is an error, last otherwise."""
    findings: Row = ("findings", findings_block(inspection.findings))
    rows = list(_rows(inspection, kept))
    rows = [findings, *rows] if has_error(inspection.findings) else [*rows, findings]
    source = inspection.checkpoint.source
    name = Text.assemble((short_name(source), "bold"), "  ", (source, "dim"))
    return Group(name, labelled(rows))


def facts_page(inspection: Inspection) -> RenderableType:
    """Every fact with its source and the tensor, key or rule that it was read from."""
    table = columns("left", "left", "left", "left")
    for name, fact in sorted(inspection.facts.items()):
        detail = Text(fact.detail or "", style="dim")
        value = "–" if fact.value is None else _value(fact.value)
        table.add_row(Text(name, style="bold"), value, fact.source, detail)
    return table


def _rows(inspection: Inspection, kept: CacheSummary | None) -> Iterator[Row]:
    yield "is", Parts(list(_identity(inspection)))
    yield "reaches", Parts(list(_reach(inspection)))
    yield "rotates", Parts(list(_rope(inspection)))
    if inspection.layers:
        yield "attends", Parts(list(_attention(inspection)))
        yield "", Text(layers.words(inspection.layers))
        yield "", Text(layers.strip(inspection.layers), style=BAR_STYLE)
    if kept:
        yield "keeps", Parts(list(_kept(kept)))
    yield "embeds", Parts(list(_embedding(inspection)))
    if inspection.value("num_experts"):
        yield "routes", Parts(list(_experts(inspection)))
    if inspection.block:
        yield "block", _block(inspection.block)


def _identity(inspection: Inspection) -> Iterator[str]:
    summary = inspection.checkpoint
    yield _value(inspection.value("architecture") or inspection.value("model_type"))
    if summary.kind != "model":
        yield f"kind: {summary.kind}"
    yield f"{format_count(summary.parameters)} parameters" if summary.parameters else "parameters unknown"
    quantization = inspection.value("quantization")
    if quantization and quantization != summary.format:  # a GGUF says it by its dtypes
        yield _quantization(quantization)
    yield ", ".join(_dtypes(summary)) or summary.format
    if summary.num_tensors:
        files = f"{len(summary.files)} files" if len(summary.files) != 1 else "1 file"
        yield f"{format_bytes(summary.tensor_bytes)} in {files}"
        yield f"{summary.num_tensors:,} tensors"
    else:
        yield "no tensor read"


def _dtypes(summary: CheckpointSummary) -> list[str]:
    """The dtypes by bytes; those below one percent of the largest are only counted."""
    ordered = sorted(summary.dtypes.items(), key=lambda item: -item[1].bytes)
    large = [name for name, total in ordered if total.bytes * 100 >= ordered[0][1].bytes]
    return [*large, f"{len(ordered) - len(large)} more"] if len(large) < len(ordered) else large


def _quantization(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("quant_method") or value.get("method") or "quantized")
    return str(value)


def _reach(inspection: Inspection) -> Iterator[str]:
    """The three lengths; one that repeats an earlier one is left out."""
    seen: set[int] = set()
    for name, words in (
        ("native_context", "trained"),
        ("max_position_embeddings", "in the config"),
        ("supported_context", "published"),
    ):
        value = inspection.value(name)
        if isinstance(value, int) and value not in seen:
            seen.add(value)
            yield f"{format_tokens(value)} {words}"
    if not seen:
        yield "unknown: nothing in the checkpoint tells"


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
    yield f"{_value(inspection.value('num_hidden_layers'))} layers"
    latent = next((group for group in inspection.layers if group.kind == "latent"), None)
    if latent and query:
        yield f"{query} query heads on one latent of {latent.head_dim_k}"
    elif query and key_value:
        ratio = inspection.value("gqa_ratio")
        shared = f" (GQA {ratio})" if ratio and ratio != 1 else ""
        yield f"{query} query heads on {key_value} KV head{'s' if key_value != 1 else ''}{shared}"
    if head_dim := inspection.value("head_dim"):
        yield f"head_dim {head_dim}"
    if inspection.value("qk_norm"):
        yield "QK-norm"


def _kept(kept: CacheSummary) -> Iterator[str]:
    yield f"{kept.bytes_per_token:,} B per token ({kept.cache_type})"
    if kept.state_bytes:
        yield f"{format_bytes(kept.state_bytes)} of state per sequence"
    for tokens, size in kept.at:
        yield f"{format_bytes(size)} at {format_tokens(tokens)}"


def _embedding(inspection: Inspection) -> Iterator[str]:
    vocabulary, hidden = inspection.value("vocab_size"), inspection.value("hidden_size")
    yield f"{_value(vocabulary)} x {_value(hidden)}"
    tied = inspection.facts.get("tie_word_embeddings")
    if tied is not None and tied.value is not None:
        detail = f" ({tied.detail})" if tied.detail else ""
        yield f"{'output head tied to it' if tied.value else 'output head separate'}{detail}"


def _experts(inspection: Inspection) -> Iterator[str]:
    yield f"{inspection.value('num_experts')} experts"
    if per_token := inspection.value("num_experts_per_tok"):
        yield f"{per_token} per token"


def _block(block: Block) -> RenderableType:
    table = columns("left", "right", "left")
    for name, count in (
        ("attention", block.attention_parameters),
        ("feed-forward", block.feed_forward_parameters),
    ):
        share = count / block.parameters if block.parameters else 0.0
        table.add_row(name, f"{share:.1%}", Text(bar(share, _BAR_WIDTH), style=BAR_STYLE))
    return Group(f"{block.parameters:,} parameters, the most frequent one", table)


def _value(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
