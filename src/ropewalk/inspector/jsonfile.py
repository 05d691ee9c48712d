"""JSON documents of a checkpoint to plain values: bounded, UTF-8 only, one error for all that is wrong.

``NaN`` and ``Infinity`` are tolerated where transformers writes them (``"time_step_limit": [0.0,
Infinity]`` in Mamba-2 configs) and refused in a safetensors header, as the format's own reader does.
"""

from __future__ import annotations

import json
from typing import Any

from ropewalk.errors import CheckpointError

# The largest index seen so far is 20 MB (a 1 T model with packed experts); a config has some KB.
MAX_JSON_BYTES = 64 * 1024 * 1024
# Every list or object costs 56 bytes and more in memory and only two in the file. An index has two, a
# tokenizer_config one for each added token.
MAX_CONTAINERS = 1_000_000


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant)
_TOLERANT = json.JSONDecoder()


def parse_json(raw: bytes, *, file: str, code: str = "config_not_json", strict: bool = False) -> Any:
    """Decode one JSON document.

    ``strict`` refuses ``NaN`` and ``Infinity``. Raises :class:`CheckpointError` with ``code`` for text that
    is not UTF-8 or not JSON, nested too deeply, holding half a surrogate pair or a number of thousands of
    digits.
    """
    try:
        text = raw.decode("utf-8")
        value = (_STRICT if strict else _TOLERANT).decode(text)
        if "\\u" in text:
            _refuse_lone_surrogates(value)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise CheckpointError(
            f"{file} is not valid JSON: {reason}", code=code, where={"file": file, "reason": reason}
        ) from error
    return value


def parse_object(raw: bytes, *, file: str, code: str = "config_not_json") -> dict[str, Any]:
    """Decode a JSON object, as every configuration file is one; see :func:`parse_json` for the errors."""
    check_size(len(raw), file=file, code=code)
    containers = raw.count(b"{") + raw.count(b"[")
    if containers > MAX_CONTAINERS:
        raise CheckpointError(
            f"{file} holds more than {MAX_CONTAINERS} lists and objects",
            code=code, where={"file": file, "containers": containers, "limit": MAX_CONTAINERS},
        )  # fmt: skip
    value = parse_json(raw, file=file, code=code)
    if not isinstance(value, dict):
        raise CheckpointError(
            f"{file} holds a JSON {type(value).__name__}, not an object",
            code=code, where={"file": file, "type": type(value).__name__},
        )  # fmt: skip
    return value


def check_size(size: int, *, file: str, code: str = "config_not_json") -> None:
    """Refuse a document that is too large to be a configuration file."""
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
