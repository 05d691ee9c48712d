"""The drawings of the HTML report: heatmap, interval, bars, line plot. ``style.css`` has their colours.

Every mark has a symbol or a shape of its own beside its colour, and a ``<title>`` that says it in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ropewalk.report.grid import PARTIAL, Heatmap, Mark, Square, Strip, arm_name, pooled
from ropewalk.report.markup import Markup, element, join
from ropewalk.units import format_tokens

_CELL, _STEP = 36, 40
_LEFT, _TOP = 70, 62
_SCORE, _TRACK = 52, 84  # ``27/30``, and the line from 0 to 100 % beside it
_BETWEEN = 40
_CLASSES = {"hit": "hit", "miss": "miss", "wrong value": "wrong", PARTIAL.words: "partial"}


@dataclass(frozen=True, slots=True)
class Line:
    """A named series of (x, y) points; ``curve`` is the line through them, straight from one to the next
    where it is empty, ``planned`` what was foretold of the same, ``band`` an interval (x, low, high)."""

    name: str
    points: tuple[tuple[float, float], ...]
    curve: tuple[tuple[float, float], ...] = ()
    planned: tuple[tuple[float, float], ...] = ()
    band: tuple[tuple[float, float, float], ...] = ()


def heatmap_svg(heatmap: Heatmap) -> Markup:
    """Arms side by side, lengths down, depths across, the pooled recall with its interval beside each row."""
    depths = max(len(strip.squares) for row in heatmap.rows.values() for strip in row if strip)
    arm_width = depths * _STEP + _SCORE + _TRACK + _BETWEEN
    width = _LEFT + arm_width * len(heatmap.arms) - _BETWEEN + 8
    height = _TOP + len(heatmap.rows) * _STEP + 4
    parts = [element("title", f"Recall of {heatmap.task} by prompt length and depth")]
    parts.append(label(_LEFT - 12, _TOP - 10, "tokens", "axis end"))
    for place, arm in enumerate(heatmap.arms):
        parts.append(_arm_head(arm_name(arm), _LEFT + place * arm_width, depths))
    for number, (length, strips) in enumerate(heatmap.rows.items()):
        top = _TOP + number * _STEP
        parts.append(label(_LEFT - 12, top + _CELL / 2 + 5, format_tokens(length), "number end"))
        for place, strip in enumerate(strips):
            parts.append(_strip(strip, _LEFT + place * arm_width, top, depths))
    return element("svg", *parts, viewBox=f"0 0 {width} {height}", width=width, role="img")


def kind_of(mark: Mark) -> str:
    """The class of a mark in the style sheet."""
    return _CLASSES.get(mark.words, "other")


def symbol_of(mark: Mark) -> str:
    """The symbol of a mark on a cell that is filled already."""
    return {"hit": "✓", PARTIAL.words: "n/m"}.get(mark.words, mark.symbol)


def label(x: float, y: float, words: str, kind: str) -> Markup:
    """A text element of the drawing."""
    return element("text", words, x=x, y=y, class_=kind)


def _arm_head(name: str, left: float, depths: int) -> Markup:
    right, track = left + depths * _STEP, left + depths * _STEP + _SCORE
    ends = [label(left, _TOP - 10, "start", "axis")] if depths > 2 else []
    if depths > 2:
        ends.append(label(right - _STEP + _CELL, _TOP - 10, "end", "axis end"))
    return join([
        label(left, 20, name, "head"),
        *ends,
        label(track, _TOP - 10, "0", "axis middle"),
        label(track + _TRACK, _TOP - 10, "100 %", "axis end"),
    ])  # fmt: skip


def _strip(strip: Strip | None, left: float, top: float, depths: int) -> Markup:
    middle = top + _CELL / 2
    if strip is None:
        return label(left, middle + 5, "not run", "axis")
    squares = [_square(square, left + n * _STEP, top) for n, square in enumerate(strip.squares)]
    right = left + depths * _STEP
    if strip.interval is None:
        return join([*squares, label(right + 6, middle + 5, pooled(strip), "axis")])
    score = label(right + 6, middle + 5, f"{strip.hits}/{strip.judged}", "number")
    return join([*squares, score, _interval(strip, strip.interval, right + _SCORE, middle)])


def _interval(strip: Strip, interval: tuple[float, float], left: float, middle: float) -> Markup:
    """A track from 0 to 100 %, the interval as a bar on it, the share itself as a dot."""
    low, high = (left + _TRACK * share for share in interval)
    dot = left + _TRACK * strip.hits / strip.judged
    return element(
        "g",
        element("title", f"{pooled(strip)}, Wilson's 95 % interval"),
        element("line", x1=left, y1=middle, x2=left + _TRACK, y2=middle, class_="grid"),
        element("line", x1=low, y1=middle, x2=high, y2=middle, class_="interval"),
        element("circle", cx=dot, cy=middle, r=5, class_="share"),
    )


def _square(square: Square, left: float, top: float) -> Markup:
    """A cell: shaded by its share of hits, its symbol on it; the count where trials disagree."""
    partial = 0 < square.hits < square.trials
    kind = "partial" if partial else kind_of(square.mark)
    share = square.hits / square.trials if partial else 1.0
    symbol = f"{square.hits}/{square.trials}" if partial else symbol_of(square.mark)
    on = "on-half" if partial and share <= 0.5 else f"on-{kind}"
    box = {"x": left, "y": top, "width": _CELL, "height": _CELL, "rx": 4}
    return element(
        "g",
        element("title", square.words),
        element("rect", class_="cell", **box),
        element("rect", class_=f"cell {kind}", fill_opacity=share, **box),
        label(left + _CELL / 2, top + _CELL / 2 + 5, symbol, f"symbol {on}"),
    )


def pair_bar(planned: int | None, seen: int | None, largest: int) -> Markup:
    """A planned amount as an outline and what was seen as the bar inside it, on one scale."""
    width = 150
    parts = []
    if planned is not None:
        parts.append(_bar("planned", 1, 14, width * planned / largest))
    if seen is not None:
        parts.append(_bar("seen", 4, 8, width * seen / largest))
    return element("svg", *parts, viewBox="0 0 152 16", width=152, height=16, aria_hidden="true")


def _bar(kind: str, top: float, height: float, width: float) -> Markup:
    return element("rect", x=1, y=top, width=max(width, 0.5), height=height, class_=kind)


_WIDTH, _HEIGHT = 680, 260
_MARGIN_LEFT, _MARGIN_RIGHT, _MARGIN_TOP, _MARGIN_BOTTOM = 52, 40, 14, 44
_SHAPES = ("circle", "square", "triangle", "diamond")
_X_LABEL = 48
Projection = Callable[[float, float], tuple[float, float]]


def line_plot(lines: Sequence[Line], *, x_title: str, y_title: str) -> Markup:
    """Lines from zero on both axes, each with a shape of its own; the legend is the caller's."""
    x_top = max(x for line in lines for x, _ in line.points)
    highest = [y for line in lines for _, y in (*line.points, *line.curve, *line.planned)]
    y_ticks = _ticks(max(highest + [high for line in lines for _, _, high in line.band]))

    def place(x: float, y: float) -> tuple[float, float]:
        across = _WIDTH - _MARGIN_LEFT - _MARGIN_RIGHT
        down = _HEIGHT - _MARGIN_TOP - _MARGIN_BOTTOM
        return _MARGIN_LEFT + across * x / x_top, _HEIGHT - _MARGIN_BOTTOM - down * y / y_ticks[-1]

    x_marks = sorted({x for line in lines for x, _ in line.points})
    parts = [element("title", f"{y_title} over {x_title}"), *_axes(place, x_marks, y_ticks)]
    parts.append(label(_WIDTH - _MARGIN_RIGHT, _HEIGHT - 6, x_title, "axis end"))
    parts += [_series(line, number, place) for number, line in enumerate(lines)]
    return element("svg", *parts, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", width=_WIDTH, role="img")


def _axes(place: Projection, x_marks: Sequence[float], y_ticks: Sequence[float]) -> list[Markup]:
    parts = []
    for tick in y_ticks:
        (left, y), (right, _) = place(0, tick), place(x_marks[-1], tick)
        parts.append(element("line", x1=left, y1=y, x2=right, y2=y, class_="grid"))
        parts.append(label(left - 8, y + 4, f"{tick:,g}", "axis end"))
    last = 0.0
    for x in reversed(x_marks):  # the longest is always named; one that would overlap is not
        at, base = place(x, 0)
        if not last or last - at >= _X_LABEL:
            parts.append(label(at, base + 18, f"{x:,g}", "axis middle"))
            last = at
    return parts


def _series(line: Line, number: int, place: Projection) -> Markup:
    spots = [place(x, y) for x, y in sorted(line.points)]
    parts = [element("path", d=_path(line.planned, place), class_="line plan")] if line.planned else []
    if line.band:
        edge = [(x, low) for x, low, _ in line.band] + [(x, high) for x, _, high in reversed(line.band)]
        parts.append(element("path", d=f"{_path(edge, place)} Z", class_="band"))
    parts.append(element("path", d=_path(line.curve or sorted(line.points), place), class_="line"))
    parts += [_shape(number, x, y) for x, y in spots]
    return element("g", *parts, class_=_series_class(number))


def _path(points: Iterable[tuple[float, float]], place: Projection) -> str:
    return "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in (place(*point) for point in points))


def legend_shape(number: int) -> Markup:
    """The shape of a series, as a small drawing for a legend."""
    group = element("g", _shape(number, 8, 8), class_=_series_class(number))
    return element("svg", group, viewBox="0 0 16 16", width=16, height=16, aria_hidden="true")


def _series_class(number: int) -> str:
    return f"series-{number % len(_SHAPES)}"


def _shape(number: int, x: float, y: float) -> Markup:
    size, name = 5.0, _SHAPES[number % len(_SHAPES)]
    if name == "circle":
        return element("circle", cx=x, cy=y, r=size, class_="spot")
    corners = {
        "square": ((-size, -size), (size, -size), (size, size), (-size, size)),
        "triangle": ((0, -size * 1.2), (size * 1.1, size), (-size * 1.1, size)),
        "diamond": ((0, -size * 1.3), (size * 1.3, 0), (0, size * 1.3), (-size * 1.3, 0)),
    }[name]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return element("polygon", points=points, class_="spot")


def _ticks(top: float) -> list[float]:
    """Round steps (1, 2 or 5 times a power of ten) from zero to at least ``top``: three to six of them."""
    power = 10.0 ** (len(str(int(top))) - 2)
    step = next(power * factor for factor in (1, 2, 5, 10, 20, 50) if top / (power * factor) <= 5)
    count = int(top / step) + (top % step > 0)
    return [step * number for number in range(max(count, 1) + 1)]
