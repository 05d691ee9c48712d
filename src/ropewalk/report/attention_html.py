"""One head's attention as an HTML file: scores, mask and weights as pictures, each cell with its number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ropewalk.errors import UsageError
from ropewalk.lab.records import Attention, Squares
from ropewalk.report.attention import check_lines, head_words, held_lines, scale_words, token_words
from ropewalk.report.figures import short_name
from ropewalk.report.html import html_document
from ropewalk.report.markup import Markup, element, join
from ropewalk.report.svg import label

_CELL, _STEP = 16, 18
_LEFT, _TOP = 130, 24
_LABEL_LEN = 16
Mask = Sequence[Sequence[bool]]
Cell = Callable[[int, int], tuple[float, str]]
"""Query and key to an opacity from 0 to 1 and the words of the cell."""


def attention_html(attention: Attention) -> str:
    """The whole document. Raises :class:`UsageError` for a prompt too long to be listed."""
    if attention.squares is None:
        raise UsageError(f"{len(attention.tokens)} tokens are too many to draw", where={"flag": "--html"})
    title = f"Attention of {short_name(attention.checkpoint)}: {head_words(attention)}"
    return html_document(title, list(_body(attention, attention.squares, title)))


def _body(attention: Attention, squares: Squares, title: str) -> Iterator[Markup]:
    scores, mask, weights = squares.scores, squares.mask, squares.weights
    yield element("h1", title)
    yield element("p", " · ".join(scale_words(attention)), class_="soft")
    live = [
        value
        for values, seen in zip(scores, mask, strict=True)
        for value, alive in zip(values, seen, strict=True)
        if alive
    ]
    low, high = min(live), max(live)

    def score(query: int, key: int) -> tuple[float, str]:
        value = scores[query][key]
        return (value - low) / ((high - low) or 1.0), f"{value:.4f}"

    note = f"From {low:.2f} (pale) to {high:.2f}; masked cells are empty."
    yield _figure(attention, mask, "Scores", note, score)
    yield _figure(attention, mask, "Mask", "What each query (row) sees.", lambda query, key: (1.0, "seen"))
    yield _figure(
        attention, mask, "Weights", "From 0 (pale) to 1; each row sums to one.",
        lambda query, key: (weights[query][key], f"{weights[query][key]:.4f}"),
    )  # fmt: skip
    yield _told("Held against", held_lines(attention))
    yield _told("Checks", check_lines(attention))


def _figure(attention: Attention, mask: Mask, name: str, note: str, cell: Cell) -> Markup:
    count = len(attention.tokens)
    width, height = _LEFT + count * _STEP + 8, _TOP + count * _STEP + 4
    parts = [element("title", f"{name} of {head_words(attention)}")]
    for place in range(count):
        parts.append(label(_LEFT + place * _STEP + _CELL / 2, _TOP - 8, str(place), "axis middle"))
        words = f"{token_words(attention, place)[:_LABEL_LEN]} {place}"
        parts.append(label(_LEFT - 8, _TOP + place * _STEP + _CELL - 3, words, "axis end"))
    for query, seen in enumerate(mask):
        parts += [_cell(attention, query, key, cell) for key, alive in enumerate(seen) if alive]
    drawing = element(
        "svg", *parts, viewBox=f"0 0 {width} {height}", width=width, role="img", style="min-width: 0"
    )
    return join([element("h2", name), element("figure", drawing), element("p", note, class_="note")])


def _cell(attention: Attention, query: int, key: int, cell: Cell) -> Markup:
    opacity, words = cell(query, key)
    names = f"{token_words(attention, query)} sees {token_words(attention, key)}"
    box = {"x": _LEFT + key * _STEP, "y": _TOP + query * _STEP, "width": _CELL, "height": _CELL}
    return element(
        "g",
        element("title", f"{names}: {words}"),
        element("rect", class_="cell", **box),
        element("rect", class_="hit", fill_opacity=opacity, **box),
    )


def _told(name: str, lines: Iterator[tuple[bool, str]]) -> Markup:
    rows: Sequence[Markup] = [
        element("li", element("b", "✓" if ok else "✗"), f" {words}", class_="info" if ok else "error")
        for ok, words in lines
    ]
    return join([element("h2", name), element("ul", *rows, class_="findings")])
