"""The page of ``ropewalk plan``: the verdict, then why, term by term, then the command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ropewalk.planner.records import (
    Compute,
    Fit,
    Launch,
    Memory,
    MemoryTerm,
    NodeLaunch,
    Parallel,
    Plan,
    RopeDecision,
)
from ropewalk.report.command import fold
from ropewalk.report.layout import (
    BAR_STYLE,
    LABEL_WIDTH,
    Parts,
    Verbatim,
    columns,
    common_unit,
    findings_block,
    in_unit,
    labelled,
    range_bar,
)
from ropewalk.report.ranks import (
    advice_table,
    candidate_table,
    describe_traffic,
    device_table,
    placement_table,
    rank_grid,
)
from ropewalk.report.verdict import flops, needed_low, verdict
from ropewalk.units import format_bytes, format_seconds, format_tokens

_BAR_WIDTH = 16
_COMMAND_WIDTH = 96
_WORDS = {"kv_cache": "KV cache", "cuda_graphs": "CUDA graphs"}
_BASES = {
    "exact": "exact", "engine_rule": "engine rule", "oracle": "the engine says so", "estimate": "estimate",
}  # fmt: skip
_TONES = {"good": "bold green", "bad": "bold red", "open": "bold"}
Row = tuple[str, RenderableType]


def plan_page(plan: Plan, *, sources: bool = False) -> RenderableType:
    """The page; ``sources`` adds where each memory term's rule was read."""
    body = labelled(_rows(plan, sources=sources))
    return Group(verdict_line(plan), body, *_command(plan.launch))


def verdict_line(plan: Plan) -> RenderableType:
    """FITS, DOES NOT FIT, NEEDS (no budget was given) or REFUSED, with the figures behind it."""
    said = verdict(plan)
    # A word longer than the label column pushes its text to the right instead of wrapping.
    gap = " " * max(2, LABEL_WIDTH + 1 - len(said.word))
    hint = ["with --memory SIZE: whether it fits, and what would"] if said.word == "NEEDS" else []
    grid = columns("left", "left")
    grid.padding = (0, 0, 0, 0)
    grid.columns[0].no_wrap = True
    grid.add_row(Text(said.word + gap, style=_TONES[said.tone]), Parts([*said.parts, *hint]))
    return grid


def term_name(name: str) -> str:
    """The name of a memory term as prose writes it."""
    return _WORDS.get(name, name.replace("_", " "))


def describe_rope(rope: RopeDecision) -> str:
    """The decision in a few words: ``YaRN factor 4.0 from 32,768``."""
    unchanged = {"none": "left as shipped", "builtin": "built in, left as shipped", "refuse": "refused"}
    if rope.decision in unchanged:
        return unchanged[rope.decision]
    name = "YaRN" if rope.type == "yarn" else rope.type or "scaled"
    factor = "" if rope.factor is None else f" factor {rope.factor!r}"
    origin = rope.original_max_position_embeddings
    return f"{name}{factor}" + (f" from {format_tokens(origin)}" if origin else "")


def _rows(plan: Plan, *, sources: bool) -> Iterator[Row]:
    yield "rope", _rope(plan.rope)
    yield "memory", _memory(plan)
    if sources:
        yield "sources", _sources(plan.memory)
    if len(plan.memory.per_device) > 1:
        yield "ranks", rank_grid(plan)
        yield "devices", device_table(plan)
    yield "KV cache", _kv(plan)
    if plan.fit.table:
        yield "what fits", _fit_table(plan.fit)
    if plan.placements:
        yield "placement", placement_table(plan.placements)
    if plan.parallel:
        yield from _parallel(plan.parallel)
    if plan.compute:
        yield "work", Parts(list(_work(plan.compute)))
    yield "findings", findings_block(plan.findings)


def _rope(rope: RopeDecision) -> RenderableType:
    return Group(Parts([describe_rope(rope), rope.reason]), Text(f"source: {rope.source}", style="dim"))


def _memory(plan: Plan) -> RenderableType:
    memory = plan.memory
    scale = max(plan.fit.budget_bytes or 0, memory.high_bytes, 1)
    unit = common_unit(term.high_bytes for term in memory.terms)
    table = columns("left", "right", "left", "left")
    for term in memory.terms:
        table.add_row(
            term_name(term.name),
            _term_bytes(term, unit),
            Text(range_bar(term.low_bytes / scale, term.high_bytes / scale, _BAR_WIDTH), style=BAR_STYLE),
            Text(_BASES[term.basis], style="dim" if term.basis == "estimate" else ""),
        )
    low, high = needed_low(memory), memory.high_bytes
    table.add_row(
        Text("total", style="bold"),
        Text(_ends(low, high, unit) + f" {unit}", style="bold"),
        Text(range_bar(low / scale, high / scale, _BAR_WIDTH), style=BAR_STYLE),
        _of_budget(plan),
    )
    return table


def _of_budget(plan: Plan) -> str:
    """What one device has; several have each their own line."""
    fit = plan.fit
    if fit.budget_bytes is None or len(plan.memory.per_device) > 1:
        return ""
    usable = fit.usable_bytes
    if usable is None or usable == fit.budget_bytes:
        return f"of {format_bytes(fit.budget_bytes)}"
    return f"of {format_bytes(usable)} that the engine uses of {format_bytes(fit.budget_bytes)}"


def _sources(memory: Memory) -> RenderableType:
    table = columns("left", "left")
    for term in memory.terms:
        table.add_row(term_name(term.name), Text(term.source, style="dim"))
    return table


def _term_bytes(term: MemoryTerm, unit: str) -> str:
    return f"{_ends(term.low_bytes, term.high_bytes, unit)} {unit}"


def _ends(low: int, high: int, unit: str) -> str:
    return " – ".join(dict.fromkeys((in_unit(low, unit), in_unit(high, unit))))


def _parallel(parallel: Parallel) -> Iterator[Row]:
    """What the search tried, what else the devices could hold, what the ranks send each other."""
    if parallel.candidates:
        yield "search", candidate_table(parallel)
    if parallel.advice:
        yield "advice", advice_table(parallel.advice)
    if parallel.traffic:
        yield "traffic", Group(*(Text(describe_traffic(sent)) for sent in parallel.traffic))


def _kv(plan: Plan) -> RenderableType:
    kv = plan.memory.kv
    parts = [f"{kv.bytes_per_token:,} B per token", f"the model needs {format_bytes(kv.logical_bytes)}"]
    parts.append(f"the engine reserves {format_bytes(kv.reserved_bytes)}")
    if kv.state_bytes_per_sequence:
        parts.append(f"state {format_bytes(kv.state_bytes_per_sequence)} per sequence")
    if kv.block_size > 1:
        parts.append(f"{kv.num_blocks:,} blocks of {kv.block_size}")
    elif kv.num_blocks:
        parts.append(f"{kv.num_blocks:,} cells")
    if kv.max_concurrency is not None:
        parts.append(f"concurrency {kv.max_concurrency:.2f}")
    return Parts(parts)


def _fit_table(fit: Fit) -> RenderableType:
    table = columns("left", "right", "right")
    table.add_row(*(Text(name, style="dim") for name in ("KV type", "largest context", "most sequences")))
    for row in fit.table:
        context = "–" if row.max_context_len is None else format_tokens(row.max_context_len)
        sequences = "–" if row.max_sequences is None else f"{row.max_sequences:,}"
        table.add_row(row.cache_type, context, sequences)
    return table


def _work(compute: Compute) -> Iterator[str]:
    prefill = compute.prefill
    yield (
        f"prefill {flops(prefill.linear_flops + prefill.attention_flops_causal)}, "
        f"{compute.attention_share:.0%} of it attention"
    )
    if compute.crossover_len:
        yield f"attention equals the rest at {format_tokens(compute.crossover_len)} tokens"
    yield f"eager attention would hold {format_bytes(compute.score_matrix_bytes)} of scores per layer"
    yield f"one more token reads {format_bytes(compute.decode.bytes_per_token)}"
    speed = compute.speed
    if speed is None:
        return
    at_most = "at most " if speed.basis == "bound" else ""
    if speed.decode_tokens_per_second is not None:
        low, high = speed.decode_tokens_per_second_low, speed.decode_tokens_per_second_high
        spread = "" if low is None or high is None else f", {low:.1f} – {high:.1f}"
        yield f"decode {at_most}{speed.decode_tokens_per_second:.1f} tokens/s{spread}"
    if speed.prefill_seconds is not None:
        at_least = "at least " if speed.basis == "bound" else ""
        low, high = speed.prefill_seconds_low, speed.prefill_seconds_high
        spread = "" if low is None or high is None else f", {format_seconds(low)} – {format_seconds(high)}"
        yield f"prefill {at_least}{format_seconds(speed.prefill_seconds)}{spread}"
    yield f"speed {speed.basis} ({speed.source})"


def _command(launch: Launch | None) -> list[RenderableType]:
    """The command on lines of its own, ready to paste."""
    if launch is None:
        return []
    engine = f"{launch.engine} {launch.engine_version or ''}".rstrip()
    how = f"confirmed by {engine}" if launch.confirmed_by == "engine" else f"by the rules of {engine}"
    label = labelled([("command", Text(how, style="dim"))])
    if not launch.nodes:
        return [label, Verbatim(fold(launch.command, width=_COMMAND_WIDTH))]
    return [label, *_commands(launch.nodes)]


def _commands(nodes: Sequence[NodeLaunch]) -> Iterator[RenderableType]:
    """The first machine's command and the second's; the others' differ from that by two words."""
    for node in nodes[:2]:
        yield Verbatim(f"# on {node.address}\n{fold(node.command, width=_COMMAND_WIDTH)}")
    if nodes[2:]:
        others = ", ".join(node.address for node in nodes[2:])
        yield Verbatim(
            f"# and on {others} with their own address and --node-rank; --emit shell writes them all"
        )
