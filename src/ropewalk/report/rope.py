"""The page of ``ropewalk rope``: the decision, the wavelengths as a plot, the pairs as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ropewalk.planner.rope.table import RopePair, RopeTable
from ropewalk.report.page import (
    Block,
    Cell,
    Level,
    Page,
    Parts,
    Plot,
    Table,
    Tone,
    fields,
    findings_block,
    parts,
    soft,
    stack,
    table,
    words,
)
from ropewalk.report.plan import describe_rope
from ropewalk.units import format_tokens, format_tokens_short

_FEW = 8  # evenly spaced pairs, besides those where something changes


def rope_page(table: RopeTable, *, all_pairs: bool = False) -> Page:
    """The page; ``all_pairs`` lists every pair instead of a few."""
    shown = table.pairs if all_pairs else _telling_pairs(table)
    blocks = (fields(_heading(table)), "", wavelength_plot(table), "", _pairs(table, shown))
    return Page(blocks, is_list=all_pairs)


def wavelength_plot(table: RopeTable) -> Block:
    """Tokens per turn (log scale) over the pairs, with lines at the trained and the asked context."""
    shipped = tuple(pair.wavelength for pair in table.pairs)
    if not any(shipped):
        return soft("no pair rotates")
    touched = set(table.touched)
    scaled = tuple(pair.scaled_wavelength if pair.index in touched else None for pair in table.pairs)
    name = "tokens per turn" + (" as shipped" if touched else "")
    series = (("●", name, shipped),)
    with_scaling = (("○", "with the scaling", scaled),) if touched else ()
    return Plot((*with_scaling, *series), tuple(_levels(table)))


def _levels(table: RopeTable) -> Iterator[Level]:
    if table.native_context:
        yield Level(table.native_context, "trained", "─", format_tokens_short(table.native_context))
    if table.context_len != table.native_context:
        yield Level(table.context_len, "asked", "┄", format_tokens_short(table.context_len))


def _heading(table: RopeTable) -> Iterator[tuple[str, Block]]:
    decision = table.decision
    tone: Tone = "bad" if decision.decision == "refuse" else "strong"
    yield "rope", stack(words((describe_rope(decision), tone)), decision.reason)
    yield "for", parts(each=_lengths(table))
    rotary = f"{table.rotary_dim} of {table.head_dim}" if table.rotary_dim != table.head_dim else "all"
    said = [
        f"theta {table.rope_theta:,.0f}",
        f"{len(table.pairs)} pairs",
        f"{rotary} head dimensions rotate",
    ]
    if table.attention_factor is not None:
        said.append(f"attention factor {table.attention_factor:.6g}")
    yield "rotates", parts(*said)
    yield "changes", _changes(table)
    yield "findings", findings_block(table.findings)


def _lengths(table: RopeTable) -> Iterator[str]:
    yield f"{format_tokens(table.context_len)} tokens with {table.engine}"
    if table.native_context:
        yield f"{format_tokens(table.native_context)} trained"
    if table.supported_context:
        yield f"{format_tokens(table.supported_context)} published"


def _changes(table: RopeTable) -> Parts:
    touched, incomplete, count = len(table.touched), len(table.incomplete), len(table.pairs)
    said = [f"the scaling slows {touched} of {count} pairs" if touched else "no pair is changed"]
    if table.native_context:
        said.append(f"{incomplete} of {count} never complete a turn in the trained context")
    return parts(*said)


def _telling_pairs(table: RopeTable) -> Sequence[RopePair]:
    """A few evenly spaced pairs, the last, and those where scaling or incompleteness begins."""
    count = len(table.pairs)
    wanted = {index * count // _FEW for index in range(_FEW)} | {1, count - 1}
    for marked in (table.touched, table.incomplete):
        if marked:
            wanted |= {marked[0] - 1, marked[0]}
    return [pair for pair in table.pairs if pair.index in wanted]


def _pairs(rope: RopeTable, pairs: Sequence[RopePair]) -> Table:
    heads = ">pair | >rate | >tokens a turn"
    if rope.touched:
        heads += " | >scaled rate | >tokens a turn | >ratio"
    return table(f"{heads} | ", (_pair(rope, pair) for pair in pairs))


def _pair(rope: RopeTable, pair: RopePair) -> list[Cell]:
    cells: list[Cell] = [str(pair.index), _rate(pair.rate), _tokens(pair.wavelength)]
    if rope.touched:
        ratio = "–" if pair.ratio is None else f"{pair.ratio:.4f}"
        cells += [_rate(pair.scaled_rate), _tokens(pair.scaled_wavelength), ratio]
    return [*cells, soft("no full turn" if pair.index in rope.incomplete else "")]


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _tokens(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"
