"""Devices of a plan: a row of bars per node, ranks that hold alike folded, and what else could be done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from ropewalk.planner.records import Advice, Candidate, DeviceShare, Parallel, PlacementStep, Plan, Traffic
from ropewalk.report.layout import BAR_STYLE, columns, common_unit, in_unit
from ropewalk.units import format_bytes, format_tokens

_BAR_WIDTH = 12
_TIGHTEST = "◀"
# Weights, caches and the rest, each with a sign of its own beside its colour; then what is free.
_PARTS = (("█", BAR_STYLE), ("▓", "magenta"), ("▒", "yellow"))
_FREE, _BEYOND = ("·", "dim"), ("▒", "bold red")
_FITS = {True: Text("✓", style="green"), False: Text("✗", style="bold red"), None: Text("")}
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


@dataclass(frozen=True, slots=True)
class _Cells:
    """Cells that flow over as many lines as the width asks for, behind a label on the first."""

    label: str
    cells: Sequence[Text]
    cell_width: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        indent = len(self.label) + 2 if self.label else 0
        per_line = max(1, (options.max_width - indent + 2) // (self.cell_width + 2))
        for start in range(0, len(self.cells), per_line):
            line = Text(f"{self.label}  " if self.label and start == 0 else " " * indent, style="dim")
            for cell in self.cells[start : start + per_line]:
                line.append_text(cell)
                line.append(" " * (self.cell_width - cell.cell_len + 2))
            line.rstrip()
            yield line


def rank_grid(plan: Plan) -> RenderableType:
    """One row per node with a bar for each rank, or for each run of ranks that hold alike."""
    folds = fold(plan.memory.per_device)
    scale = max(max(_high(each.share), _budget(plan, each.share) or 0) for each in folds) or 1
    nodes = [list(group) for _, group in groupby(folds, key=lambda each: each.node)]
    width = max(len(each.name) for each in folds)
    rows: list[RenderableType] = []
    for group in nodes:
        cells = [_cell(plan, each, width, scale) for each in group]
        label = f"node {group[0].node:<{len(str(nodes[-1][0].node))}}" if len(nodes) > 1 else ""
        rows.append(_Cells(label, cells, width + 1 + _BAR_WIDTH + 2))
    return Group(*rows, _legend(folds))


def _cell(plan: Plan, each: Fold, width: int, scale: int) -> Text:
    cell = Text(f"{each.name:<{width}} ")
    cell.append_text(_bar(each.share, _budget(plan, each.share), scale))
    if each.tightest:
        cell.append(f" {_TIGHTEST}", style="bold")
    return cell


def _bar(share: DeviceShare, budget: int | None, scale: int) -> Text:
    """Weights, caches, the rest at its upper end, and what is free; red beyond the budget."""
    other = max(0, _high(share) - share.weights_bytes - share.kv_bytes)
    edges = [0, share.weights_bytes, share.weights_bytes + share.kv_bytes]
    edges = [round(edge * _BAR_WIDTH / scale) for edge in (*edges, edges[-1] + other)]
    cells = [
        part for part, first, last in zip(_PARTS, edges, edges[1:], strict=False) for _ in range(last - first)
    ]
    limit = _BAR_WIDTH if budget is None else round(budget * _BAR_WIDTH / scale)
    cells = [cell if at < limit else _BEYOND for at, cell in enumerate(cells)]
    cells += [_FREE] * (limit - len(cells) if budget is not None else 0)
    return Text.assemble(*cells)


def _high(share: DeviceShare) -> int:
    """The upper end of what it holds."""
    return share.total_bytes if share.high_bytes is None else share.high_bytes


def _budget(plan: Plan, share: DeviceShare) -> int | None:
    """What may be used of the device; None without a budget, and for memory beside the devices."""
    if share.fits is None:
        return None
    own = share.place.budget_bytes if share.place else None
    return plan.fit.usable_bytes if own is None else own


def _legend(folds: Sequence[Fold]) -> Text:
    names = ("weights", "cache", "other")
    words = [
        part
        for name, (sign, style) in zip(names, _PARTS, strict=True)
        for part in ((sign, style), f" {name}  ")
    ]
    if any(each.share.fits is not None for each in folds):
        words += [_FREE, " free  "]
    if any(each.tightest for each in folds):
        words += [(_TIGHTEST, "bold"), " the tightest"]
    legend = Text.assemble(*words, style="dim")
    legend.rstrip()
    return legend


def device_table(plan: Plan) -> RenderableType:
    """What each device holds, a line for those that hold alike."""
    folds = fold(plan.memory.per_device)
    unit = common_unit(share.total_bytes for share in plan.memory.per_device)
    blocks = any(_blocks(each) for each in folds)
    table = columns("left", "left", "left", "right", "right", "right", *(["right"] if blocks else []))
    heads = ("", unit, "layers", "weights", "KV cache", "total", *(["blocks"] if blocks else []))
    table.add_row(*(Text(name, style="dim") for name in heads))
    for each in folds:
        share = each.share
        held = (share.weights_bytes, share.kv_bytes, share.total_bytes)
        table.add_row(
            _FITS[share.fits],
            each.name,
            _layers(share),
            *(in_unit(count, unit) for count in held),
            *([_blocks(each)] if blocks else []),
        )
    return table


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


def advice_table(advice: Sequence[Advice]) -> RenderableType:
    """Other cuts of the same devices, and what they would hold."""
    table = columns("left", "right", "right")
    heads = ("instead", "context", "sequences")
    table.add_row(*(Text(name, style="dim") for name in heads))
    for one in advice:
        context = "–" if one.max_context_len is None else format_tokens(one.max_context_len)
        sequences = "–" if one.max_sequences is None else f"{one.max_sequences:,}"
        table.add_row(" ".join(one.flags), context, sequences)
    return table


def describe_traffic(sent: Traffic) -> str:
    """``tensor parallel: 598,016 B per token and rank in 73 all-reduces, 1 – 731 µs (estimate)``."""
    tensor = sent.kind == "tensor"
    how = "all-reduce" if tensor else "send"
    many = f"{sent.operations} {how}s" if sent.operations != 1 else f"1 {how}"
    where = " between nodes" if sent.between_nodes else ""
    words = f"{sent.kind} parallel: {sent.bytes_per_token:,} B per token{' and rank' if tensor else ''}"
    words += f"{where} in {many}"
    if sent.low_seconds is None or sent.high_seconds is None:
        return words
    low, high = (seconds * 1e6 for seconds in (sent.low_seconds, sent.high_seconds))
    return f"{words}, {low:,.0f} – {high:,.0f} µs (estimate)"


_STEPS = {
    "one_more": "one more",
    "chosen": "chosen",
    "one_less": "one less",
    "least": "least",
}


def placement_table(steps: Sequence[PlacementStep]) -> RenderableType:
    """The chosen placement between its neighbours: what stays on the host, what is short or to spare."""
    unit = common_unit(step.host_weights_bytes for step in steps)
    table = columns("left", "right", "right", "right", "right", "left")
    heads = ("", "layers", "experts off", f"host {unit}", "longest", "")
    table.add_row(*(Text(name, style="dim") for name in heads))
    for step in steps:
        reach = "–" if step.max_context_len is None else format_tokens(step.max_context_len)
        lacks, spare = format_bytes(abs(step.shortfall_bytes)), step.shortfall_bytes <= 0
        table.add_row(
            _STEPS[step.kind],
            "all" if step.gpu_layers is None else str(step.gpu_layers),
            str(step.n_cpu_moe or 0),
            in_unit(step.host_weights_bytes, unit),
            reach,
            f"{lacks} to spare" if spare else f"lacks {lacks}",
            style="bold" if step.kind == "chosen" else "",
        )
    return table


def candidate_table(parallel: Parallel) -> RenderableType:
    """What the search tried: the nearest cuts of fewer devices, and all of the number that was chosen."""
    chosen = next(one for one in parallel.candidates if one.chosen)
    last = [one for one in parallel.candidates if _devices(one) == _devices(chosen)]
    fewer = [one for one in parallel.candidates if _devices(one) != _devices(chosen)][-_NEAREST:]
    table = columns("left", "right", "right", "right", "right", "right", "left")
    heads = ("", "devices", "nodes", "tensor", "pipeline", "B a token", "")
    table.add_row(*(Text(name, style="dim") for name in heads))
    for one in (*fewer, *last):
        table.add_row(*_candidate(one), style="bold" if one.chosen else "")
    return table


def _candidate(one: Candidate) -> Iterator[str]:
    yield "▶" if one.chosen else ""
    yield str(_devices(one))
    yield str(one.nodes)
    yield str(one.tensor_parallel)
    yield str(one.pipeline_parallel)
    yield "–" if one.bytes_per_token is None else f"{one.bytes_per_token:,}"
    cut = f", layers {','.join(map(str, one.layer_partition))}" if one.layer_partition else ""
    yield one.reason + cut


def _devices(one: Candidate) -> int:
    return one.tensor_parallel * one.pipeline_parallel * one.data_parallel
