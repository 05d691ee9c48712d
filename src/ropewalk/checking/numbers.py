"""Numbers as each engine reads them from its command line."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

_STOI = re.compile(r"\s*([+-]?\d+)", re.ASCII)
_STOF = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])", re.ASCII)
_SINGLE_MIN, _SINGLE_MAX = 2.0**-126, (2 - 2**-23) * 2.0**127
_MAX_EXACT = 1 << 53  # what a double still holds exactly
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


@dataclass(frozen=True, slots=True)
class Prefix:
    """A number read from the start of a text, and what was left unread."""

    value: int | float
    rest: str


def stoi(text: str) -> Prefix:
    """``std::stoi``: the leading digits, whatever follows (``128k`` is 128). Raises ValueError."""
    match = _STOI.match(text)
    if match is None or not -(2**31) <= int(match[1]) < 2**31:
        raise ValueError("stoi")
    return Prefix(int(match[1]), text[match.end() :])


def stof(text: str) -> Prefix:
    """``std::stof``: the leading decimal number, whatever follows. Raises ValueError."""
    match = _STOF.match(text)
    value = float(match[1]) if match else 0.0
    if match is None or (value and not _SINGLE_MIN <= abs(value) <= _SINGLE_MAX):
        raise ValueError("stof")
    return Prefix(value, text[match.end() :])


def human_int(text: str) -> int:
    """vLLM's counts: ``8k`` is 8000, ``8K`` is 8192, ``25.6k`` is 25600; ``25.6K`` is refused.

    Source: vllm 0.32.0, utils/argparse_utils.py ``human_readable_int``. Raises ValueError.
    """
    match = _HUMAN.fullmatch(text.strip())
    if match is None:
        value = int(text)
    else:
        number, suffix = match.groups()
        power = _POWERS[suffix.lower()]
        value = int(float(number) * 1000**power) if suffix.islower() else int(number) * 1024**power
    if abs(value) > _MAX_EXACT:
        raise ValueError("it is more than any count")
    return value


def human_length(text: str) -> int:
    """vLLM's ``--max-model-len``: as :func:`human_int`, and ``auto`` is -1."""
    return -1 if text.strip().lower() == "auto" else human_int(text)


def finite(text: str) -> float:
    """A number that a record can hold. Raises ValueError for the others."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no finite number")
    return value


def json_value(text: str) -> Any:
    """A JSON text, of finite numbers only. Raises ValueError."""
    try:
        return json.loads(text, parse_float=finite, parse_constant=finite)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
