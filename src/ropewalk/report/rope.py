"""The page of ``ropewalk rope``: the decision, the wavelengths as a plot, the pairs as a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ropewalk.planner.rope.table import RopePair, RopeTable
from ropewalk.report.layout import Parts, columns, findings_block, labelled
from ropewalk.report.plan import describe_rope
from ropewalk.units import format_tokens, format_tokens_short

_PLOT_ROWS = 12
_PLOT_COLUMNS = 64
_FEW = 8  # evenly spaced pairs, besides those where something changes
Row = tuple[str, RenderableType]


def rope_page(table: RopeTable, *, all_pairs: bool = False) -> RenderableType:
    """The page; ``all_pairs`` lists every pair instead of a few."""
    shown = table.pairs if all_pairs else _telling_pairs(table)
    return Group(labelled(_heading(table)), "", wavelength_plot(table), "", _pairs(table, shown))


def wavelength_plot(table: RopeTable) -> RenderableType:
    """Tokens per turn (log scale) over the pairs, with lines at the trained and the asked context."""
    waves = [pair.wavelength for pair in table.pairs if pair.wavelength]
    if not waves:
        return Text("no pair turns", style="dim")
    top = max([*waves, *(pair.scaled_wavelength or 0 for pair in table.pairs), table.context_len])
    axis = _LogAxis(low=min(waves), high=top)
    canvas = [[" "] * min(_PLOT_COLUMNS, len(table.pairs)) for _ in range(_PLOT_ROWS)]
    ticks = [axis.tick(row) for row in range(_PLOT_ROWS)]
    legend = ["● tokens per turn" + (" as shipped  ○ with the scaling" if table.touched else "")]
    for length, name, stroke in _lines(table):
        row = axis.row(length)
        canvas[row] = [stroke] * len(canvas[row])
        ticks[row] = format_tokens_short(length)
        legend.append(f"{stroke} {name}")
    for pair in table.pairs:
        column = pair.index * len(canvas[0]) // len(table.pairs)
        if pair.scaled_wavelength and pair.index in table.touched:
            canvas[axis.row(pair.scaled_wavelength)][column] = "○"
        if pair.wavelength:
            canvas[axis.row(pair.wavelength)][column] = "●"
    lines = [f"{tick:>8} {''.join(cells)}" for tick, cells in zip(ticks, canvas, strict=True)]
    key = Text(f"{'':>8} {'  '.join(legend)}", style="dim")
    return Group(*(Text(line, no_wrap=True) for line in lines), key)


class _LogAxis:
    """Rows from ``high`` at the top to ``low`` at the bottom."""

    def __init__(self, *, low: float, high: float) -> None:
        self._low, self._high = math.log10(low), math.log10(high)

    def row(self, value: float) -> int:
        share = (math.log10(value) - self._low) / ((self._high - self._low) or 1.0)
        return round((1 - min(max(share, 0.0), 1.0)) * (_PLOT_ROWS - 1))

    def tick(self, row: int) -> str:
        """A label on every third row."""
        if row % 3:
            return ""
        step = (self._high - self._low) * (1 - row / (_PLOT_ROWS - 1))
        return format_tokens_short(round(10 ** (self._low + step)))


def _lines(table: RopeTable) -> Iterator[tuple[int, str, str]]:
    if table.native_context:
        yield table.native_context, "trained", "─"
    if table.context_len != table.native_context:
        yield table.context_len, "asked", "┄"


def _heading(table: RopeTable) -> Iterator[Row]:
    decision = table.decision
    style = "bold red" if decision.decision == "refuse" else "bold"
    yield "rope", Group(Text(describe_rope(decision), style=style), Text(decision.reason))
    yield "for", Parts(list(_lengths(table)))
    rotary = f"{table.rotary_dim} of {table.head_dim}" if table.rotary_dim != table.head_dim else "all"
    parts = [
        f"theta {table.rope_theta:,.0f}",
        f"{len(table.pairs)} pairs",
        f"{rotary} numbers of a head turn",
    ]
    if table.attention_factor is not None:
        parts.append(f"attention factor {table.attention_factor:.6g}")
    yield "rotates", Parts(parts)
    yield "changes", _changes(table)
    yield "findings", findings_block(table.findings)


def _lengths(table: RopeTable) -> Iterator[str]:
    yield f"{format_tokens(table.context_len)} tokens with {table.engine}"
    if table.native_context:
        yield f"{format_tokens(table.native_context)} trained"
    if table.supported_context:
        yield f"{format_tokens(table.supported_context)} published"


def _changes(table: RopeTable) -> RenderableType:
    touched, incomplete, count = len(table.touched), len(table.incomplete), len(table.pairs)
    parts = [f"the scaling slows {touched} of {count} pairs" if touched else "no pair is changed"]
    if table.native_context:
        parts.append(f"{incomplete} of {count} never complete a turn in the trained context")
    return Parts(parts)


def _telling_pairs(table: RopeTable) -> Sequence[RopePair]:
    """A few evenly spaced pairs, the last, and those where scaling or incompleteness begins."""
    count = len(table.pairs)
    wanted = {index * count // _FEW for index in range(_FEW)} | {1, count - 1}
    for marked in (table.touched, table.incomplete):
        if marked:
            wanted |= {marked[0] - 1, marked[0]}
    return [pair for pair in table.pairs if pair.index in wanted]


def _pairs(table: RopeTable, pairs: Sequence[RopePair]) -> RenderableType:
    scaled = bool(table.touched)
    grid = columns("right", "right", "right", *(["right"] * 3 if scaled else []), "left")
    heads = [
        "pair",
        "rate",
        "tokens a turn",
        *(["scaled rate", "tokens a turn", "ratio"] if scaled else []),
        "",
    ]
    grid.add_row(*(Text(head, style="dim") for head in heads))
    for pair in pairs:
        cells = [str(pair.index), _rate(pair.rate), _tokens(pair.wavelength)]
        if scaled:
            cells += [_rate(pair.scaled_rate), _tokens(pair.scaled_wavelength), _ratio(pair.ratio)]
        note = "no full turn" if pair.index in table.incomplete else ""
        grid.add_row(*cells, Text(note, style="dim"))
    return grid


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _tokens(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
