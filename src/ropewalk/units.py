"""Bytes and token counts, parsed and formatted: the only place that knows 1024**3.

Integers inside, GiB and MiB on screen. A token count takes ``k``/``Ki`` (x 1024) and ``M``/``Mi``
(x 1024**2); a size takes the IEC units (``24GiB``) and the SI ones (``24GB`` = 24 * 10**9).
"""

from __future__ import annotations

import re
from decimal import ROUND_DOWN, Decimal

from ropewalk.errors import UsageError

KIB = 1024
MIB = 1024**2
GIB = 1024**3
TIB = 1024**4
_INT64_MAX = 2**63 - 1

_TOKEN_UNITS = {"": 1, "k": KIB, "ki": KIB, "m": MIB, "mi": MIB}
_SIZE_UNITS = {
    "": 1, "b": 1,
    "k": KIB, "m": MIB, "g": GIB, "t": TIB, "ki": KIB, "mi": MIB, "gi": GIB, "ti": TIB,
    "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
}  # fmt: skip
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)


def parse_tokens(text: str) -> int:
    """``"128k"`` -> 131072. Raises :class:`UsageError` for anything but a positive whole number."""
    return _parse(text, _TOKEN_UNITS, what="token count", example="32768, 32k (= 32768) or 1M (= 1048576)")


def parse_size(text: str) -> int:
    """``"24GiB"`` -> 25769803776, ``"24GB"`` -> 24000000000. Raises :class:`UsageError`."""
    return _parse(text, _SIZE_UNITS, what="size", example="24GiB, 24GB (= 24 * 10^9) or plain bytes")


def _parse(text: str, units: dict[str, int], *, what: str, example: str) -> int:
    match = _NUMBER.fullmatch(text.replace("_", "").replace(",", ""))
    unit = units.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise UsageError(f"{text!r} is not a {what}; write {example}", where={"value": text})
    value = Decimal(match[1]) * unit
    if units is _SIZE_UNITS and unit > 1:
        value = value.to_integral_value(ROUND_DOWN)  # 79.19GiB: a part of a byte is none
    if value != value.to_integral_value() or not 0 < value <= _INT64_MAX:
        raise UsageError(f"{text!r} is not a positive whole {what}", where={"value": text})
    return int(value)


def format_bytes(count: int) -> str:
    """``16381470720`` -> ``"15.26 GiB"``; below 1 MiB in KiB, below 1 KiB in B."""
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(count) >= unit:
            return f"{count / unit:,.2f} {name}"
    return f"{count} B"


def exact_size(count: int) -> str:
    """A size as an option takes it: ``48GiB``, ``512MiB``, else the bytes."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB")):
        if count and count % unit == 0:
            return f"{count // unit}{name}"
    return str(count)


def format_gib(count: int) -> str:
    """Always GiB with two decimals, for columns that must compare."""
    return f"{count / GIB:,.2f} GiB"


def format_mib(count: int) -> str:
    """Always MiB with two decimals: what the llama.cpp log prints."""
    return f"{count / MIB:,.2f} MiB"


def format_tokens(count: int) -> str:
    """Token counts with thousands separators: ``131072`` -> ``"131,072"``."""
    return f"{count:,}"


def format_tokens_short(count: int) -> str:
    """``131072`` -> ``"128k"``, ``11572`` -> ``"11.3k"``; for axes and narrow columns."""
    if count >= MIB:
        return f"{_trim(count / MIB)}M"
    return f"{_trim(count / KIB)}k" if count >= KIB else str(count)


def format_count(count: int) -> str:
    """Parameters for people: ``8190735360`` -> ``"8.19 B"``."""
    for unit, name in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "k")):
        if abs(count) >= unit:
            return f"{count / unit:.{1 if name == 'k' else 2}f} {name}"
    return str(count)


def format_seconds(seconds: float) -> str:
    """``75.2`` -> ``"1 min 15 s"``; below ten seconds with one decimal."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _trim(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
