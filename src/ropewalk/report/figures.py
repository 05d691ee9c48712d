"""Figures and names as every page writes them: bars, one unit per column, ends of a range, plurals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ropewalk.units import GIB, format_gib, format_mib

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int) -> str:
    """``share`` of ``width`` cells in eighths of a cell, at least one eighth for what is not nothing."""
    eighths = max(round(min(share, 1.0) * width * 8), 1 if share > 0 else 0)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def range_bar(low: float, high: float, width: int) -> str:
    """A bar up to the share ``low``, shaded on to ``high``: an estimate with its range."""
    solid = bar(low, width)
    shaded = max(0, round(min(high, 1.0) * width) - len(solid))
    return solid + "▒" * (shaded or (1 if high > low else 0))


def short_name(source: str) -> str:
    """The last part of a path or of a Hub id."""
    return source.rstrip("/").rsplit("/", 1)[-1]


def common_unit(counts: Iterable[int]) -> str:
    """GiB where the largest of a column reaches one, MiB below: one unit per column."""
    return "GiB" if max(counts, default=0) >= GIB else "MiB"


def in_unit(count: int, unit: str) -> str:
    """A byte count in the unit of its column, without the unit's name; what is not nothing never reads 0."""
    text = (format_gib if unit == "GiB" else format_mib)(count).removesuffix(f" {unit}")
    return "<0.01" if count > 0 and text == "0.00" else text


def amount(count: int | None, unit: str) -> str:
    """``4.23 GiB``; a dash for what is not known."""
    return "–" if count is None else f"{in_unit(count, unit)} {unit}"


def span(low: int, high: int, unit: str | None = None, *, to: str = " – ") -> str:
    """``1.00 – 3.00 GiB``; one figure where both ends print alike."""
    unit = unit or common_unit((high,))
    return f"{to.join(dict.fromkeys((in_unit(low, unit), in_unit(high, unit))))} {unit}"


def plural(count: int, thing: str) -> str:
    """``1 shard``, ``2 shards``."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def value_text(value: object, unknown: str = "–") -> str:
    """A value as people write it: thousands apart, yes and no, lists with commas."""
    if value is None:
        return unknown
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(value_text, value)) or "none"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def per_token(size: int, windows: tuple[int, ...], beyond: int | None, cache_type: str = "") -> Iterator[str]:
    """What a token takes in the cache; of a model with windows also past them."""
    inside = f" inside the window of {windows[0]:,} tokens" if windows else ""
    yield f"{size:,} B per token{inside}" + (f" ({cache_type})" if cache_type else "")
    if beyond is not None and windows:
        past = "beyond it" if len(windows) == 1 else f"beyond {windows[-1]:,}"
        yield f"{beyond:,} B per token {past}"


def printable(text: str) -> str:
    """Text that a terminal only shows: a name out of a checkpoint may hold codes that would move its cursor,
    change its title or turn the direction of what follows."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
