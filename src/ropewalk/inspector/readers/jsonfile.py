"""JSON documents of a checkpoint to plain values: bounded, UTF-8 only, one error for all that is wrong.

``NaN`` and ``Infinity`` are tolerated where transformers writes them (``"time_step_limit": [0.0,
Infinity]`` in Mamba-2 configs) and refused in a safetensors header, as the format's own reader does.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from math import isinf
from typing import Any

from ropewalk.errors import CheckpointError
from ropewalk.inspector.readers.lfs import refuse_lfs_pointer
from ropewalk.limits import (
    MAX_CONFIG_BYTES,
    MAX_CONFIG_KEYS,
    MAX_CONFIG_VALUES,
    MAX_HEADER_BYTES,
    MAX_JSON_BYTES,
    MAX_JSON_KEYS,
    MAX_JSON_VALUES,
)


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError(f"{text} is out of range")
    return number


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_TOLERANT = json.JSONDecoder()
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(slots=True)
class JsonBudget:
    """How much may still be decoded: bytes of text, values, keys of objects."""

    size: int = MAX_HEADER_BYTES
    values: int = MAX_JSON_VALUES
    keys: int = MAX_JSON_KEYS

    @classmethod
    def of_configs(cls) -> JsonBudget:
        """For all of a checkpoint's configuration files together, which are kept as they are."""
        return cls(MAX_CONFIG_BYTES, MAX_CONFIG_VALUES, MAX_CONFIG_KEYS)

    def spend(self, raw: bytes, *, file: str, code: str) -> None:
        """Take a document off, before it is decoded: a value costs up to a hundred times its text in memory.

        Raises :class:`CheckpointError` with the limit. Text inside of strings is counted along.
        """
        values = raw.count(b",") + raw.count(b"{") + raw.count(b"[")
        for name, count in (("size", len(raw)), ("values", values), ("keys", raw.count(b":"))):
            left = getattr(self, name)
            if count > left:
                raise CheckpointError(
                    f"{file} has {count:,} {'bytes' if name == 'size' else name}; at most {left:,} are read",
                    code=code, where={"file": file, name: count, "limit": left},
                )  # fmt: skip
            setattr(self, name, left - count)


def parse_object(
    raw: bytes,
    *,
    file: str,
    code: str = "config_not_json",
    what: str | None = None,
    strict: bool = False,
    budget: JsonBudget | None = None,
) -> dict[str, Any]:
    """Decode a JSON object: a configuration, an index, a header.

    ``what`` describes it in messages, ``strict`` refuses ``NaN`` and ``Infinity``; ``budget`` is shared with
    other documents. Raises :class:`CheckpointError` with ``code`` for text that is not UTF-8 or not JSON, no
    object, nested too deeply, holding half a surrogate pair or a number of thousands of digits, or above the
    budget.
    """
    refuse_lfs_pointer(raw[:1024], file=file, file_bytes=len(raw))
    if budget is not None or len(raw) > MAX_JSON_KEYS:  # fewer bytes cannot hold more of anything
        (budget or JsonBudget()).spend(raw, file=file, code=code)
    try:
        text = raw.decode("utf-8")
        value = (_STRICT if strict else _TOLERANT).decode(text)
        if _SURROGATE.search(raw):
            _refuse_lone_surrogates(value)
        if not isinstance(value, dict):
            raise ValueError(f"a {type(value).__name__} stands where an object should")
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise CheckpointError(
            f"{what or file} is not valid JSON: {reason}", code=code, where={"file": file, "reason": reason}
        ) from error
    return value


def repeated_keys(raw: bytes) -> list[tuple[str, list[Any]]]:
    """The keys that an object of this document has more than once, with all their values in order.

    ``json`` keeps the last value without a word. The document must have passed :func:`parse_object`.
    """
    repeated: list[tuple[str, list[Any]]] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        merged = dict(pairs)
        if len(merged) < len(pairs):
            values: dict[str, list[Any]] = {}
            for key, value in pairs:
                values.setdefault(key, []).append(value)
            repeated.extend((key, found) for key, found in values.items() if len(found) > 1)
        return merged

    json.loads(raw, object_pairs_hook=collect)
    return repeated


def check_size(size: int, *, file: str, code: str = "config_not_json") -> None:
    """Refuse a document that is too large to be a configuration file or an index."""
    if size > MAX_JSON_BYTES:
        raise CheckpointError(
            f"{file} has {size:,} bytes; a configuration file has at most {MAX_JSON_BYTES:,}",
            code=code, where={"file": file, "bytes": size, "limit": MAX_JSON_BYTES},
        )  # fmt: skip


def _refuse_lone_surrogates(value: Any) -> None:
    """Half a pair (``"\\ud800"``) is no character: it could not be printed or written again."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("a string holds half a surrogate pair") from error
