"""Values of the wrong type, and names that are none, as our own error: what ``import ropewalk`` is given is
checked field by field against the records' own annotations."""

from __future__ import annotations

import difflib
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

from ropewalk.engines import EngineName, planned_engines
from ropewalk.errors import UsageError

T = TypeVar("T")
_NOUNS = {int: "a whole number", float: "a number", str: "text", bool: "True or False", NoneType: "None"}


def record_of(cls: type[T], given: Mapping[str, object]) -> T:
    """A record from keywords; lists become tuples.

    Raises :class:`UsageError` naming the field that is unknown, missing or of another type.
    """
    known = {one.name: one for one in fields(cls)}  # type: ignore[arg-type]  # records are dataclasses
    require_known(given, known)
    for name, one in known.items():
        if name not in given and one.default is MISSING and one.default_factory is MISSING:
            raise UsageError(f"{name} is needed", where={"field": name})
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return checked(cls(**values))


def checked(record: T) -> T:
    """The same record, if every field is of its type. Raises :class:`UsageError` naming the first that is
    not: dataclasses themselves do not look."""
    hints: dict[str, Any] = _hints(type(record))  # type: ignore[arg-type]  # a class can be hashed
    for name, kind in hints.items():
        require_type(name, getattr(record, name), kind)
    return record


def require_known(given: Iterable[str], known: Iterable[str]) -> None:
    """Raise :class:`UsageError` for a name that is not known, with the nearest one that is."""
    known = tuple(known)
    for name in given:
        if name not in known:
            raise UsageError(f"there is no option {name!r}{nearest(name, known)}", where={"field": name})


def tuple_of(value: object) -> object:
    """A sequence as the tuple that its type is asked of; anything else as it is, to be refused."""
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def require_type(name: str, value: object, kind: Any) -> None:
    """Raise :class:`UsageError` where ``value`` is not of the annotated type ``kind``."""
    if is_typeddict(kind) and isinstance(value, Mapping):
        require_known(value, _hints(kind))
        for key, item in value.items():
            require_type(f"{name}.{key}", item, _hints(kind)[key])
    elif not _is(value, kind):
        options = tuple(map(str, _literals(kind)))
        meant = nearest(value, options) if isinstance(value, str) else ""
        told = value if isinstance(value, str | int | float | bool | NoneType) else repr(value)
        raise UsageError(
            f"{name} must be {_described(kind)}, not {value!r}{meant}", where={"field": name, "value": told}
        )


def nearest(word: str, known: Iterable[str]) -> str:
    """``"; did you mean 'vllm'?"``, or nothing where no known word is near."""
    found = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


@cache
def _hints(cls: Hashable) -> dict[str, Any]:
    return get_type_hints(cls)


def _is(value: object, kind: Any) -> bool:
    origin = get_origin(kind)
    if kind is Any or is_typeddict(kind):
        return kind is Any
    if origin in (Union, UnionType):
        return any(_is(value, one) for one in get_args(kind))
    if origin is Literal:
        return any(value == one and type(value) is type(one) for one in _choices(kind))
    if origin is tuple:
        item = get_args(kind)[0]
        return isinstance(value, tuple) and all(_is(one, item) for one in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, origin or kind)


def _literals(kind: Any) -> tuple[object, ...]:
    if get_origin(kind) is Literal:
        return _choices(kind)
    return tuple(value for one in get_args(kind) for value in _literals(one))


def _choices(kind: Any) -> tuple[object, ...]:
    """The values of a literal type; the engines are those of the registry."""
    return planned_engines() if kind == EngineName else get_args(kind)


def _described(kind: Any) -> str:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(map(_described, parts))
    if origin is Literal:
        return f"one of {', '.join(map(str, _choices(kind)))}"
    if origin is tuple:
        return f"a tuple, of which each is {_described(parts[0])}"
    if is_typeddict(kind):
        return "a dict of options"
    return _NOUNS.get(kind, f"a {(origin or kind).__name__}")
