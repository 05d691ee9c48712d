"""The pages of ``ropewalk attend``: one head in numbers and as a picture, or the two kernels side by side."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from ropewalk.lab.records import Attention, KernelPoint, Kernels, Rows, Squares
from ropewalk.report.layout import Parts, columns, labelled, short_name
from ropewalk.units import format_bytes, format_tokens

NUMBERS_LEN = 10  # tokens whose squares fit into a terminal as numbers
PICTURE_LEN = 60
_MASKED = "·"
_SHADES = " ░▒▓█"
_LABEL = 16
Row = tuple[str, RenderableType]


def attention_page(attention: Attention) -> RenderableType:
    """What was computed, what it was held against, then scores and weights."""
    parts: list[RenderableType] = [labelled(_heading(attention))]
    count = len(attention.tokens)
    squares = attention.squares
    if squares and count <= NUMBERS_LEN:
        parts += ["", _numbers(attention, squares, squares.scores, "scores", digits=2)]
        parts += ["", _numbers(attention, squares, squares.weights, "weights", digits=3)]
    if squares and count <= PICTURE_LEN:
        parts += ["", _picture(attention, squares)]
    if count > NUMBERS_LEN:
        listed = "--json has them, --html draws them" if squares else "the prompt is too long for a list"
        parts += ["", Text(f"the numbers of {count} tokens do not fit here: {listed}", style="dim")]
    return Group(*parts)


def head_words(attention: Attention) -> str:
    """``layer 3, head 4``."""
    return f"layer {attention.layer}, head {attention.head}"


def token_words(attention: Attention, place: int) -> str:
    """The text of a token on one line, or its id."""
    token = attention.tokens[place]
    return str(token.id) if token.text is None else repr(token.text)[1:-1]


def scale_words(attention: Attention) -> Iterator[str]:
    """What is done to queries and keys before the softmax."""
    yield f"scores are q · k x {attention.scale:.6g} (1 / √{attention.head_dim})"
    if not attention.rotary:
        yield "no rotation in this layer"
    elif attention.attention_factor != 1:
        yield f"attention factor {attention.attention_factor:.6g} on each of q and k"
    yield "full attention" if attention.window is None else f"window of {attention.window:,} tokens"


def _heading(attention: Attention) -> Iterator[Row]:
    reads = f"reads KV head {attention.kv_head} ({attention.head} // {attention.gqa_ratio})"
    yield "head", Parts([short_name(attention.checkpoint), head_words(attention), reads])
    yield "computes", Parts(list(scale_words(attention)))
    yield "held", Group(*map(_line, held_lines(attention)))
    yield "checks", Group(*map(_line, check_lines(attention)))
    square = f"a square of scores of all heads is {format_bytes(attention.square_bytes)}"
    read = f"{format_bytes(attention.weight_bytes_read)} of weights read"
    yield "size", Parts([f"{len(attention.tokens)} tokens", square, read, f"torch {attention.torch_version}"])


def held_lines(attention: Attention) -> Iterator[tuple[bool, str]]:
    """Whether it agrees, and the largest difference in words."""
    for held in attention.held:
        words = f"{held.quantity} by hand against {held.against}: largest difference"
        yield held.ok, f"{words} {held.largest_difference:.2g}"


def check_lines(attention: Attention) -> Iterator[tuple[bool, str]]:
    """Whether a check passed, and what it found."""
    for check in attention.checks:
        name = check.name.replace("_", " ")
        yield check.ok, f"{name}: {check.value:.2g} ({check.detail})"


def _line(told: tuple[bool, str]) -> Text:
    ok, words = told
    return Text.assemble(("✓ ", "green") if ok else ("✗ ", "bold red"), words)


def _numbers(
    attention: Attention, squares: Squares, square: Rows, name: str, *, digits: int
) -> RenderableType:
    """One of the squares with its masked cells as dots; queries down, keys across."""
    grid = columns("left", *(["right"] * len(square)))
    grid.add_row(Text(name, style="bold"), *(Text(str(place), style="dim") for place in range(len(square))))
    for place, (values, seen) in enumerate(zip(square, squares.mask, strict=True)):
        cells = (
            Text(f"{value:.{digits}f}") if live else Text(_MASKED, style="dim")
            for value, live in zip(values, seen, strict=True)
        )
        grid.add_row(_label(attention, place), *cells)
    return grid


def _picture(attention: Attention, squares: Squares) -> RenderableType:
    """Weights as shades, the mask as dots."""
    lines = [Text(f"weights: {_MASKED} masked, blank below 0.05, ░ ▒ ▓ in between, █ from 0.75", style="dim")]
    for place, (values, seen) in enumerate(zip(squares.weights, squares.mask, strict=True)):
        cells = "".join(
            _shade(value) * 2 if live else f"{_MASKED} " for value, live in zip(values, seen, strict=True)
        )
        line = Text.assemble(_label(attention, place), " ", (cells.rstrip(), "cyan"))
        line.no_wrap = True
        lines.append(line)
    return Group(*lines)


def _shade(weight: float) -> str:
    return _SHADES[sum(weight >= least for least in (0.05, 0.25, 0.5, 0.75))]


def _label(attention: Attention, place: int) -> Text:
    words = f"{place} {token_words(attention, place)}"
    text = Text(words)
    text.truncate(_LABEL, overflow="ellipsis", pad=True)
    return text


def kernels_page(kernels: Kernels) -> RenderableType:
    """A row per length: the formula, then time and memory of both."""
    heads = f"{kernels.num_attention_heads} query heads, {kernels.num_key_value_heads} KV heads"
    shape = f"{heads} of {kernels.head_dim}"
    where = f"{kernels.device}, {kernels.dtype}, torch {kernels.torch_version}"
    heading = labelled([
        ("kernels", Parts([short_name(kernels.checkpoint), shape, where])),
        ("formula", "a square of scores takes heads x tokens² x bytes per number, its work is 4 x heads x "
                    "head_dim x tokens²: twice the tokens, four times of both"),
    ])  # fmt: skip
    grid = columns("right", "right", "right", "right", "right", "right", "right", "left")
    heads_of_columns = ("tokens", "square", "eager", "", "peak", "sdpa", "", "peak")
    grid.add_row(*(Text(name, style="dim") for name in heads_of_columns))
    before: dict[str, KernelPoint] = {}
    notes = []
    for eager, sdpa in zip(kernels.points[::2], kernels.points[1::2], strict=True):
        cells = [format_tokens(eager.length), format_bytes(eager.square_bytes)]
        for point in (eager, sdpa):
            cells += [_seconds(point), _growth(before.get(point.kernel), point), _peak(point)]
            before[point.kernel] = point
            if point.note:
                notes.append(Text(f"{point.kernel} at {format_tokens(point.length)}: {point.note}"))
        grid.add_row(*cells)
    return Group(heading, "", grid, *notes)


def _seconds(point: KernelPoint) -> str:
    if point.seconds is None:
        return "not run"
    return f"{point.seconds:.2f} s" if point.seconds >= 1 else f"{point.seconds * 1000:.2f} ms"


def _growth(before: KernelPoint | None, point: KernelPoint) -> str:
    """How many times as long as at half the length."""
    if before is None or before.seconds is None or point.seconds is None:
        return ""
    return f"x{point.seconds / before.seconds:.1f}"


def _peak(point: KernelPoint) -> str:
    if point.peak_bytes is None:
        return "–"
    return f"{format_bytes(point.peak_bytes)} ({point.peak_bytes / point.square_bytes:.1f} squares)"
