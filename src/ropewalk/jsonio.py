"""Records to JSON and back.

Writing is a plain walk over dataclasses, so that ``--json`` needs no validator to start; reading and
the JSON Schema use pydantic's ``TypeAdapter`` over the very same classes. There are no twin models.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
_FIELD_NAMES: dict[Any, tuple[str, ...]] = {}
_ADAPTERS: dict[Any, Any] = {}


def to_data(value: Any) -> Any:
    """A record as plain dicts, lists and scalars. Raises TypeError for what JSON cannot hold."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {name: to_data(getattr(value, name)) for name in _field_names(type(value))}
    if isinstance(value, dict):
        return {str(key): to_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_data(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no place in a record")


def dumps(value: Any, *, indent: int | None = 2) -> str:
    """A record as JSON text; NaN and infinity are refused, since JSON has none."""
    return json.dumps(to_data(value), indent=indent, ensure_ascii=False, allow_nan=False)


def from_data(cls: type[T], data: Any) -> T:
    """Validate plain data into a record. Raises ``pydantic.ValidationError``."""
    return _adapter(cls).validate_python(data)


def loads(cls: type[T], text: str | bytes) -> T:
    """Validate JSON text into a record. Raises ``pydantic.ValidationError``."""
    return _adapter(cls).validate_json(text)


def schema_of(cls: type[Any]) -> dict[str, Any]:
    """The JSON Schema of a record, as committed under ``docs/schemas``."""
    return _adapter(cls).json_schema(mode="serialization")


def _field_names(cls: type[Any]) -> tuple[str, ...]:
    names = _FIELD_NAMES.get(cls)
    if names is None:
        own = getattr(cls, "record_fields", None)  # a record whose JSON has more than its fields
        names = _FIELD_NAMES[cls] = own or tuple(item.name for item in fields(cls))
    return names


def _adapter(cls: type[T]) -> TypeAdapter[T]:
    from pydantic import TypeAdapter  # 0.1 s: only where something is read back

    adapter = _ADAPTERS.get(cls)
    if adapter is None:
        adapter = _ADAPTERS[cls] = TypeAdapter(cls)
    return adapter
