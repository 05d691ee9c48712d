"""Devices of a plan: a row of bars per node, ranks that hold alike folded, and what else could be done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ropewalk.planner.records import Advice, Candidate, DeviceShare, Parallel, PlacementStep, Plan, Traffic
from ropewalk.report.figures import amount, common_unit, plural
from ropewalk.report.page import (
    Block,
    Cell,
    Fields,
    Line,
    Parts,
    Table,
    Tone,
    Words,
    mark,
    stack,
    strong,
    table,
    words,
)
from ropewalk.units import format_bytes

_BAR_WIDTH = 12
_TIGHTEST = "◀"
# Weights, caches and the rest, each with a sign of its own beside its colour; then what is free.
_PARTS: tuple[tuple[str, Tone], ...] = (("█", "bar"), ("▓", "cache"), ("▒", "other"))
_FREE: tuple[str, Tone] = ("·", "soft")
_BEYOND: tuple[str, Tone] = ("▒", "bad")
_NEAREST = 5  # candidates with fewer devices that a page lists


@dataclass(frozen=True, slots=True)
class Fold:
    """Devices next to each other on one node that hold alike; the first stands for all of them."""

    share: DeviceShare
    devices: tuple[str, ...]
    tightest: bool

    @property
    def name(self) -> str:
        """``gpu:0–7``, or the device's own name."""
        first, last = self.devices[0], self.devices[-1]
        return first if first == last else f"{first}–{last.rpartition(':')[2]}"

    @property
    def node(self) -> int:
        """The node that they are on."""
        return self.share.place.node if self.share.place else 0


def fold(shares: Sequence[DeviceShare]) -> list[Fold]:
    """Neighbours of one node that differ in nothing but their shard, replica or numbers of experts."""
    folds = []
    for _, alike in groupby(shares, key=_likeness):
        group = list(alike)
        tightest = any(share.place is not None and share.place.tightest for share in group)
        folds.append(Fold(group[0], tuple(share.device for share in group), tightest))
    return folds


def _likeness(share: DeviceShare) -> DeviceShare:
    if share.place is None:
        return share
    experts = share.place.experts and (0, share.place.experts[1] - share.place.experts[0])
    place = replace(share.place, shard=0, replica=0, tightest=False, experts=experts)
    return replace(share, device=share.device.partition(":")[0], place=place)


def rank_grid(plan: Plan) -> Block:
    """One row per node with a bar for each rank, or for each run of ranks that hold alike."""
    folds = fold(plan.memory.per_device)
    scale = max(max(_high(each.share), _budget(plan, each.share) or 0) for each in folds) or 1
    nodes = [list(group) for _, group in groupby(folds, key=lambda each: each.node)]
    width = max(len(each.name) for each in folds)
    cell_width = width + 1 + _BAR_WIDTH + 2
    rows = [
        (
            f"node {group[0].node}" if len(nodes) > 1 else "",
            Parts(tuple(_cell(plan, each, width, scale) for each in group), gap="  ", width=cell_width),
        )
        for group in nodes
    ]
    return stack(Fields(tuple(rows), None, "soft") if len(nodes) > 1 else rows[0][1], _legend(folds))


def _cell(plan: Plan, each: Fold, width: int, scale: int) -> Words:
    tightest: list[tuple[str, Tone]] = [(f" {_TIGHTEST}", "strong")] if each.tightest else []
    return words(f"{each.name:<{width}} ", *_bar(each.share, _budget(plan, each.share), scale), *tightest)


def _bar(share: DeviceShare, budget: int | None, scale: int) -> list[tuple[str, Tone]]:
    """Weights, caches, the rest at its upper end, and what is free; red beyond the budget."""
    other = max(0, _high(share) - share.weights_bytes - share.kv_bytes)
    edges = [0, share.weights_bytes, share.weights_bytes + share.kv_bytes]
    edges = [round(edge * _BAR_WIDTH / scale) for edge in (*edges, edges[-1] + other)]
    cells = [
        part for part, first, last in zip(_PARTS, edges, edges[1:], strict=False) for _ in range(last - first)
    ]
    limit = _BAR_WIDTH if budget is None else round(budget * _BAR_WIDTH / scale)
    cells = [cell if at < limit else _BEYOND for at, cell in enumerate(cells)]
    return cells + [_FREE] * (limit - len(cells) if budget is not None else 0)


def _high(share: DeviceShare) -> int:
    """The upper end of what it holds."""
    return share.total_bytes if share.high_bytes is None else share.high_bytes


def _budget(plan: Plan, share: DeviceShare) -> int | None:
    """What may be used of the device; None without a budget, and for memory beside the devices."""
    if share.fits is None:
        return None
    own = share.place.budget_bytes if share.place else None
    return plan.fit.usable_bytes if own is None else own


def _legend(folds: Sequence[Fold]) -> Words:
    signs: list[tuple[str, Tone]] = list(_PARTS)
    names = ["weights", "cache", "other"]
    if any(each.share.fits is not None for each in folds):
        signs.append(_FREE)
        names.append("free")
    if any(each.tightest for each in folds):
        signs.append((_TIGHTEST, "strong"))
        names.append("the tightest")
    runs: list[tuple[str, Tone]] = []
    for sign, name in zip(signs, names, strict=True):
        runs += [sign, (f" {name}  ", "soft")]
    return words(*runs[:-1], (f" {names[-1]}", "soft"))


def device_table(plan: Plan) -> Table:
    """What each device holds, a line for those that hold alike."""
    folds = fold(plan.memory.per_device)
    unit = common_unit(share.total_bytes for share in plan.memory.per_device)
    blocks = any(_blocks(each) for each in folds)
    rows: list[list[Cell]] = []
    for each in folds:
        share = each.share
        held = (share.weights_bytes, share.kv_bytes, share.total_bytes)
        figures = [*(amount(count, unit) for count in held), *([_blocks(each)] if blocks else [])]
        rows.append([mark(share.fits), each.name, _layers(share), *figures])
    return table(f"| device | layers | >weights | >KV cache | >total{' | >blocks' * blocks}", rows)


def _blocks(each: Fold) -> str:
    """Blocks that there is room for; nothing where they are not counted."""
    blocks = each.share.place.blocks if each.share.place else None
    return "" if blocks is None else f"{blocks:,}"


def _layers(share: DeviceShare) -> str:
    """``0–17 +embedding``; what a device holds beside its blocks."""
    first, last = share.layers
    words = [f"{first}–{last - 1}" if last > first else "none"]
    if share.place and share.place.embedding:
        words.append("+emb")
    if share.place and share.place.head:
        words.append("+head")
    if share.place and share.place.experts:
        words.append(f"{share.place.experts[1] - share.place.experts[0]} exp")
    return " ".join(words)


def advice_table(advice: Sequence[Advice]) -> Table:
    """Other cuts of the same devices, and what they would hold."""
    rows = (
        (" ".join(one.flags), _or_dash(one.max_context_len), _or_dash(one.max_sequences)) for one in advice
    )
    return table("*instead | >context | >sequences", rows)


def _or_dash(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"


def describe_traffic(sent: Traffic) -> str:
    """``tensor parallel: 598,016 B per token and rank in 73 all-reduces, 1 – 731 µs (estimate)``."""
    tensor = sent.kind == "tensor"
    how = "all-reduce" if tensor else "send"
    many = plural(sent.operations, how)
    where = " between nodes" if sent.between_nodes else ""
    said = f"{sent.kind} parallel: {sent.bytes_per_token:,} B per token{' and rank' if tensor else ''}"
    said += f"{where} in {many}"
    if sent.low_seconds is None or sent.high_seconds is None:
        return said
    low, high = (seconds * 1e6 for seconds in (sent.low_seconds, sent.high_seconds))
    return f"{said}, {low:,.0f} – {high:,.0f} µs (estimate)"


_STEPS = {"one_more": "one more", "chosen": "chosen", "one_less": "one less", "least": "least"}


def placement_table(steps: Sequence[PlacementStep]) -> Table:
    """The chosen placement between its neighbours: what stays on the host, what is short or to spare."""
    unit = common_unit(step.host_weights_bytes for step in steps)
    return table(
        "| >layers | >experts off | >on the host | >longest | *",
        (_placed(step, amount(step.host_weights_bytes, unit)) for step in steps),
    )


def _placed(step: PlacementStep, on_host: str) -> list[Line]:
    lacks, spare = format_bytes(abs(step.shortfall_bytes)), step.shortfall_bytes <= 0
    layers = "all" if step.gpu_layers is None else str(step.gpu_layers)
    cells = [_STEPS[step.kind], layers, str(step.n_cpu_moe or 0), on_host, _or_dash(step.max_context_len)]
    cells.append(f"{lacks} to spare" if spare else f"lacks {lacks}")
    return [strong(cell) if step.kind == "chosen" else cell for cell in cells]


def candidate_table(parallel: Parallel) -> Table:
    """What the search tried: the nearest cuts of fewer devices, and all of the number that was chosen."""
    chosen = next(one for one in parallel.candidates if one.chosen)
    last = [one for one in parallel.candidates if _devices(one) == _devices(chosen)]
    fewer = [one for one in parallel.candidates if _devices(one) != _devices(chosen)][-_NEAREST:]
    heads = "| >devices | >nodes | >tensor | >pipeline | >sent per token | *"
    return table(heads, (_candidate(one) for one in (*fewer, *last)))


def _candidate(one: Candidate) -> list[Line]:
    cut = f", layers {','.join(map(str, one.layer_partition))}" if one.layer_partition else ""
    sent = "–" if one.bytes_per_token is None else f"{one.bytes_per_token:,} B"
    counts = (_devices(one), one.nodes, one.tensor_parallel, one.pipeline_parallel)
    cells = ["▶" if one.chosen else "", *map(str, counts), sent, one.reason + cut]
    return [strong(cell) if one.chosen else cell for cell in cells]


def _devices(one: Candidate) -> int:
    return one.tensor_parallel * one.pipeline_parallel * one.data_parallel
