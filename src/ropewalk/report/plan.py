"""The page of ``ropewalk plan``: the verdict, then why, term by term, then the command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ropewalk.planner.records import (
    Compute,
    Fit,
    KvCache,
    Memory,
    Parallel,
    Plan,
    RopeDecision,
    WayOut,
)
from ropewalk.report.command import fold
from ropewalk.report.figures import common_unit, per_token, span
from ropewalk.report.page import (
    Bar,
    Block,
    Cell,
    Fields,
    Line,
    Page,
    Table,
    Verbatim,
    fields,
    findings_block,
    parts,
    soft,
    stack,
    strong,
    table,
    words,
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

COMMAND_WIDTH = 96
_NAMES = {"kv_cache": "KV cache", "cuda_graphs": "CUDA graphs"}
_BASES = {
    "exact": "exact", "engine_rule": "engine rule", "dry_run": "the engine says so", "estimate": "estimate",
}  # fmt: skip


def plan_page(plan: Plan, *, sources: bool = False) -> Page:
    """The page; ``sources`` adds where each memory term's rule was read."""
    return Page((verdict_line(plan), fields(_rows(plan, sources=sources)), *_command(plan)))


def verdict_line(plan: Plan) -> Fields:
    """FITS, DOES NOT FIT, NEEDS (no budget was given) or REFUSED, with the figures behind it."""
    said = verdict(plan)
    hint = ["add --memory SIZE or --gpu NAME to see whether it fits"] if said.word == "NEEDS" else []
    return Fields(
        ((said.word, parts(*said.parts, *hint)),), width=max(10, len(said.word) + 1), tone=said.tone
    )


def term_name(name: str) -> str:
    """The name of a memory term as prose writes it."""
    return _NAMES.get(name, name.replace("_", " "))


def describe_rope(rope: RopeDecision) -> str:
    """The decision in a few words: ``YaRN factor 4.0 from 32,768``."""
    unchanged = {"none": "left as shipped", "builtin": "built in, left as shipped", "refuse": "refused"}
    if rope.decision in unchanged:
        return unchanged[rope.decision]
    name = "YaRN" if rope.type == "yarn" else rope.type or "scaled"
    factor = "" if rope.factor is None else f" factor {rope.factor!r}"
    origin = rope.original_max_position_embeddings
    return f"{name}{factor}" + (f" from {format_tokens(origin)}" if origin else "")


def _rows(plan: Plan, *, sources: bool) -> Iterator[tuple[str, Block]]:
    rope = plan.rope
    yield "rope", stack(parts(describe_rope(rope), rope.reason), soft(f"source: {rope.source}"))
    yield "memory", _memory(plan)
    if sources:
        yield "sources", table("|*", ((term_name(t.name), soft(t.source)) for t in plan.memory.terms))
    if len(plan.memory.per_device) > 1:
        yield "ranks", rank_grid(plan)
        yield "devices", device_table(plan)
    yield "KV cache", parts(each=_kv(plan.memory.kv))
    if plan.memory.kv.pool_bytes is not None:
        yield "pool", parts(each=_pool(plan.memory.kv))
    if plan.fit.table:
        yield "what fits", _fit_table(plan.fit)
    if plan.ways_out:
        yield "ways out", ways_table(plan.ways_out)
    if plan.placements:
        yield "placement", placement_table(plan.placements)
    if plan.parallel:
        yield from _parallel(plan.parallel)
    if plan.compute:
        yield "work", parts(each=_work(plan.compute))
    yield "findings", findings_block(plan.findings)


def memory_rows(memory: Memory, unit: str, scale: int) -> Iterator[tuple[Cell, ...]]:
    """Each term: its name, its range, a bar of it, how sure it is."""
    for term in memory.terms:
        drawn = Bar(term.low_bytes / scale, term.high_bytes / scale)
        basis = soft(_BASES[term.basis]) if term.basis == "estimate" else _BASES[term.basis]
        yield term_name(term.name), span(term.low_bytes, term.high_bytes, unit), drawn, basis


def _memory(plan: Plan) -> Table:
    memory = plan.memory
    scale = max(plan.fit.budget_bytes or 0, memory.high_bytes, 1)
    unit = common_unit(term.high_bytes for term in memory.terms)
    low, high = needed_low(memory), memory.high_bytes
    total = (strong("total"), strong(span(low, high, unit)), Bar(low / scale, high / scale), _of_budget(plan))
    return table("|>| |*", (*memory_rows(memory, unit, scale), total))


def _of_budget(plan: Plan) -> str:
    """What one device has; several have each their own line."""
    budget, usable = plan.fit.budget_bytes, plan.fit.usable_bytes
    if budget is None or len(plan.memory.per_device) > 1:
        return ""
    if usable is None or usable == budget:
        return f"of {format_bytes(budget)}"
    return f"of {format_bytes(usable)} usable ({usable / budget:.0%} of {format_bytes(budget)})"


def _parallel(parallel: Parallel) -> Iterator[tuple[str, Block]]:
    """What the search tried, what else the devices could hold, what the ranks send each other."""
    if parallel.candidates:
        yield "search", candidate_table(parallel)
    if parallel.advice:
        yield "advice", advice_table(parallel.advice)
    if parallel.traffic:
        yield "traffic", stack(*map(describe_traffic, parallel.traffic))


def _kv(kv: KvCache) -> Iterator[str]:
    yield from per_token(kv.bytes_per_token, kv.windows, kv.bytes_per_token_beyond)
    yield f"the model needs {format_bytes(kv.logical_bytes)}"
    yield f"the engine reserves {format_bytes(kv.reserved_bytes)}"
    if kv.state_bytes_per_sequence:
        yield f"state {format_bytes(kv.state_bytes_per_sequence)} per sequence"
    if kv.block_size > 1:
        yield f"{kv.num_blocks:,} blocks of {kv.block_size} tokens"
    elif kv.num_blocks:
        yield f"{kv.num_blocks:,} cells"
    if kv.max_concurrency is not None:
        yield f"room for {kv.max_concurrency:.2f} full requests at once"


def _pool(kv: KvCache) -> Iterator[str]:
    """What this start takes, as vLLM prints it, from the low to the high end of what it rests on."""
    low, high = kv.pool_bytes_low or 0, kv.pool_bytes_high or 0
    yield f"this start takes {span(low, high, common_unit([high]))} per device"
    yield f"{_ends(kv.pool_blocks_low, kv.pool_blocks_high)} blocks"
    yield f"{_ends(kv.pool_tokens_low, kv.pool_tokens_high)} tokens"
    fewest, most = kv.pool_concurrency_low or 0.0, kv.pool_concurrency_high or 0.0
    yield f"concurrency {fewest:.2f}" + (f" – {most:.2f}" if most > fewest else "")


def _ends(low: int | None, high: int | None) -> str:
    return f"{low or 0:,}" if low == high else f"{low or 0:,} – {high or 0:,}"


def _fit_table(fit: Fit) -> Table:
    rows = ((row.cache_type, _or_dash(row.max_context_len), _or_dash(row.max_sequences)) for row in fit.table)
    return table("KV type | >longest context by memory | >most sequences", rows)


_CHANGES = {
    "cache_type": "a smaller KV cache type", "tensor_parallel": "more devices",
    "gpu_layers": "layers on the host", "cpu_moe": "experts on the host", "memory": "a larger device",
    "num_sequences": "fewer sequences", "context_len": "fewer tokens", "weights": "a quantised sibling",
}  # fmt: skip


def ways_table(ways: Sequence[WayOut]) -> Table:
    """What would fit, the least costly first, each with what it needs of what the engine may use."""
    rows = []
    for way in ways:
        option = " ".join(way.flags) or f"weights of at most {format_bytes(way.weights_bytes or 0)}"
        need = f"{format_bytes(way.needed_bytes)} of {format_bytes(way.usable_bytes)}"
        rows.append((_CHANGES[way.kind], strong(option) if way.flags else option, need))
    return table("change | *with | >needs per device", rows)


def _or_dash(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"


def _work(compute: Compute) -> Iterator[str]:
    prefill = compute.prefill
    yield (
        f"prefill {flops(prefill.linear_flops + prefill.attention_flops_causal)}, "
        f"{compute.attention_share:.0%} of it attention"
    )
    if compute.crossover_len:
        yield f"beyond {format_tokens(compute.crossover_len)} tokens attention is most of the compute"
    yield f"eager attention would hold {format_bytes(compute.score_matrix_bytes)} of scores per layer"
    yield f"each generated token reads {format_bytes(compute.decode.bytes_per_token)}"
    speed = compute.speed
    if speed is None:
        return
    at_most = "at most " if speed.basis == "bound" else ""
    if speed.decode_tokens_per_second is not None:
        low, high = speed.decode_tokens_per_second_low, speed.decode_tokens_per_second_high
        ends = "" if low is None or high is None else f", {low:.1f} – {high:.1f}"
        yield f"decode {at_most}{speed.decode_tokens_per_second:.1f} tokens/s{ends}"
    if speed.prefill_seconds is not None:
        at_least = "at least " if speed.basis == "bound" else ""
        low, high = speed.prefill_seconds_low, speed.prefill_seconds_high
        ends = "" if low is None or high is None else f", {format_seconds(low)} – {format_seconds(high)}"
        yield f"prefill {at_least}{format_seconds(speed.prefill_seconds)}{ends}"
    yield f"speed {speed.basis} ({speed.source})"


def _command(plan: Plan) -> Iterator[Block]:
    """The command on lines of its own, ready to paste, and why it has what nobody asked for; of several
    machines the first two, as the others differ from those by two words."""
    launch = plan.launch
    if launch is None:
        return
    engine = f"{launch.engine} {launch.engine_version or ''}".rstrip()
    confirmed = launch.confirmed_by == "engine"
    how: Line = soft(
        f"confirmed by {engine}" if confirmed else f"worked out from the rules of {engine}, not run"
    )
    if plan.fit.fits is False:
        how = words(("does not fit as it stands", "bad"))
    yield fields([("command", how)])
    if not launch.nodes:
        yield Verbatim(fold(launch.command, width=COMMAND_WIDTH))
    for node in launch.nodes[:2]:
        yield Verbatim(f"# on {node.address}\n{fold(node.command, width=COMMAND_WIDTH)}")
    if launch.nodes[2:]:
        others = ", ".join(node.address for node in launch.nodes[2:])
        yield Verbatim(
            f"# and on {others} with their own address and --node-rank; --emit shell writes them all"
        )
    if launch.explained:
        rows = ((" ".join(note.flags), soft(note.why)) for note in launch.explained)
        yield fields([("options", table("|*", rows))])
