"""Arguments of the public functions: what does not fit is a :class:`UsageError`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

from ropewalk.errors import UsageError
from ropewalk.validation import require_known, require_type

Source = str | os.PathLike[str]
P = ParamSpec("P")
R = TypeVar("R")


def public(function: Callable[P, R]) -> Callable[P, R]:
    """A call that does not fit the signature is the user's mistake like any other."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            own = error.__traceback__
            if own is None or own.tb_next is not None:  # not the call itself, but something in it
                raise
            code = function.__code__
            require_known(kwargs, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
            raise UsageError(str(error), where={"function": function.__name__}) from None

    return call


def source_of(source: object) -> Source:
    require_type("source", source, str | os.PathLike)
    return source  # type: ignore[return-value]  # it was looked at


def require_alone(options: Mapping[str, object]) -> None:
    if options:
        name = next(iter(options))
        raise UsageError(f"a request has {name} of its own: give one or the other", where={"field": name})
