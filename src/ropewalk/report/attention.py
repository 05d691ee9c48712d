"""The pages of ``ropewalk attend``: one head in numbers and as a picture, or the two kernels side by side."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len, set_cell_size

from ropewalk.lab.records import Attention, KernelPoint, Kernels, Rows, Squares
from ropewalk.report.figures import plural, short_name
from ropewalk.report.page import Block, Line, Page, Table, Words, fields, parts, soft, stack, table, words
from ropewalk.units import format_bytes, format_tokens

NUMBERS_LEN = 10  # tokens whose squares fit into a terminal as numbers
PICTURE_LEN = 60
_MASKED = "·"
_SHADES = " ░▒▓█"
_LABEL = 16


def attention_page(attention: Attention) -> Page:
    """What was computed, what it was held against, then scores and weights."""
    blocks: list[Block] = [fields(_heading(attention))]
    count = len(attention.tokens)
    squares = attention.squares
    if squares and count <= NUMBERS_LEN:
        blocks += ["", _numbers(attention, squares, squares.scores, "scores", digits=2)]
        blocks += ["", _numbers(attention, squares, squares.weights, "weights", digits=3)]
    if squares and count <= PICTURE_LEN:
        blocks += ["", *_picture(attention, squares)]
    if count > NUMBERS_LEN:
        listed = "--json has them, --html draws them" if squares else "the prompt is too long for a list"
        blocks += ["", soft(f"the numbers of {count} tokens do not fit here: {listed}")]
    return Page(tuple(blocks))


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


def _heading(attention: Attention) -> Iterator[tuple[str, Block]]:
    reads = f"reads KV head {attention.kv_head} ({attention.head} // {attention.gqa_ratio})"
    yield "head", parts(short_name(attention.checkpoint), head_words(attention), reads)
    yield "computes", parts(each=scale_words(attention))
    yield "held", stack(*map(_line, held_lines(attention)))
    yield "checks", stack(*map(_line, check_lines(attention)))
    square = f"a square of scores of all heads is {format_bytes(attention.square_bytes)}"
    read = f"{format_bytes(attention.weight_bytes_read)} of weights read"
    yield (
        "size",
        parts(plural(len(attention.tokens), "token"), square, read, f"torch {attention.torch_version}"),
    )


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


def _line(told: tuple[bool, str]) -> Words:
    ok, said = told
    return words(("✓ ", "good") if ok else ("✗ ", "bad"), said)


def _numbers(attention: Attention, squares: Squares, square: Rows, name: str, *, digits: int) -> Table:
    """One of the squares with its masked cells as dots; queries down, keys across."""
    rows: list[list[Line]] = []
    for place, (values, seen) in enumerate(zip(square, squares.mask, strict=True)):
        cells = zip(values, seen, strict=True)
        shown = (f"{value:.{digits}f}" if live else soft(_MASKED) for value, live in cells)
        rows.append([_label(attention, place), *shown])
    return table([name, *(f">{place}" for place in range(len(square)))], rows, abreast=True)


def _picture(attention: Attention, squares: Squares) -> Iterator[Line]:
    """Weights as shades, the mask as dots; one cell a key where two would be wider than a terminal."""
    yield soft(f"weights: {_MASKED} masked, blank below 0.05, ░ ▒ ▓ in between, █ from 0.75")
    wide = 2 if len(attention.tokens) <= PICTURE_LEN // 2 else 1
    for place, (values, seen) in enumerate(zip(squares.weights, squares.mask, strict=True)):
        cells = zip(values, seen, strict=True)
        shown = "".join(_shade(value) * wide if live else f"{_MASKED:<{wide}}" for value, live in cells)
        yield words(f"{_label(attention, place)} ", (shown.rstrip(), "bar"))


def _shade(weight: float) -> str:
    return _SHADES[sum(weight >= least for least in (0.05, 0.25, 0.5, 0.75))]


def _label(attention: Attention, place: int) -> str:
    said = f"{place} {token_words(attention, place)}"
    return set_cell_size(said if cell_len(said) <= _LABEL else f"{said[: _LABEL - 1]}…", _LABEL)


def kernels_page(kernels: Kernels) -> Page:
    """A row per length: the formula, then time and memory of both."""
    queries = plural(kernels.num_attention_heads, "query head")
    shape = f"{queries}, {plural(kernels.num_key_value_heads, 'KV head')} of {kernels.head_dim}"
    where = f"{kernels.device}, {kernels.dtype}, torch {kernels.torch_version}"
    heading = fields([
        ("kernels", parts(short_name(kernels.checkpoint), shape, where)),
        ("formula", "a square of scores takes heads x tokens² x bytes per number, its work is 4 x heads x "
                    "head_dim x tokens²: twice the tokens, four times of both"),
    ])  # fmt: skip
    before: dict[str, KernelPoint] = {}
    rows, notes = [], []
    for eager, sdpa in zip(kernels.points[::2], kernels.points[1::2], strict=True):
        cells = [format_tokens(eager.length), format_bytes(eager.square_bytes)]
        for point in (eager, sdpa):
            cells += [_seconds(point), _growth(before.get(point.kernel), point), _peak(point)]
            before[point.kernel] = point
            if point.note:
                notes.append(f"{point.kernel} at {format_tokens(point.length)}: {point.note}")
        rows.append(cells)
    columns = ">tokens | >square | >eager | > | >peak | >sdpa | > | peak"
    return Page((heading, "", table(columns, rows, *notes)))


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
