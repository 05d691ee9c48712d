"""JSON documents of a checkpoint to plain values: bounded, UTF-8 only, one error for all that is wrong.

``NaN`` and ``Infinity`` are tolerated where transformers writes them (``"time_step_limit": [0.0,
Infinity]`` in Mamba-2 configs) and refused in a safetensors header, as the format's own reader does.
"""

from __future__ import annotations

import json
from math import isinf
from typing import Any

from ropewalk.errors import CheckpointError
from ropewalk.inspector.readers.lfs import refuse_lfs_pointer

# The largest index seen so far is 20 MB (a 1 T model with packed experts); a config has some KB.
MAX_JSON_BYTES = 64 * 1024 * 1024
# Every list or object takes 56 bytes and more in memory and as little as two in the file, so a large
# document may have one in 8 bytes at most. A tensor in a header has three in 46 and more.
_DENSE_BYTES = 8 * 1024 * 1024
_CONTAINER_BYTES = 8


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError(f"{text} is out of range")
    return number


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_TOLERANT = json.JSONDecoder()


def parse_object(
    raw: bytes, *, file: str, code: str = "config_not_json", what: str | None = None, strict: bool = False
) -> dict[str, Any]:
    """Decode a JSON object: a configuration, an index, a header.

    ``what`` describes it in messages, ``strict`` refuses ``NaN`` and ``Infinity``. Raises
    :class:`CheckpointError` with ``code`` for text that is not UTF-8 or not JSON, no object, nested too
    deeply, holding half a surrogate pair or a number of thousands of digits, or too dense.
    """
    refuse_lfs_pointer(raw[:1024], file=file, file_bytes=len(raw))
    if len(raw) > _DENSE_BYTES:
        _refuse_dense(raw, file=file, code=code)
    try:
        text = raw.decode("utf-8")
        value = (_STRICT if strict else _TOLERANT).decode(text)
        if b"\\" in raw:
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


def _refuse_dense(raw: bytes, *, file: str, code: str) -> None:
    """Refuse a document whose lists and objects would take many times its own size in memory."""
    containers = raw.count(b"{") + raw.count(b"[")
    if containers > len(raw) // _CONTAINER_BYTES:
        raise CheckpointError(
            f"{file} has {containers:,} lists and objects in {len(raw):,} bytes, more than any real one",
            code=code, where={"file": file, "containers": containers, "bytes": len(raw)},
        )  # fmt: skip


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
