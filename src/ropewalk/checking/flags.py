"""The options of an engine: their spellings, arities and ends, read from a list that is kept as data.

The lists hold every option of one released version (``version``, ``source``), so that a real one is never
called unknown, and the options that older recipes still carry (``removed``).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Literal

from ropewalk.engines import EngineName
from ropewalk.planner.rope.versions import parse_version

FlagKind = Literal[
    "switch",  # takes no value
    "bool",  # takes no value and has a negated spelling
    "int",
    "float",
    "str",
    "json",
    "count",  # an integer that may carry k, K, M, ...
    "length",  # a count, or "auto"
    "list",  # one value or more
    "append",  # a value each time it is given
    "optional",  # a value or none
    "pair",  # two values
]
_LONGEST = 64  # characters; no option is longer
_APART = 16  # in length; what is further is no misspelling
_NO_VALUE = frozenset({"switch", "bool"})


@dataclass(frozen=True, slots=True)
class Flag:
    """One option. ``env`` sets it too; ``choices`` are all values it takes; ``note`` says it is idle.

    Of a removed one, ``gone`` is the earliest version known to be without it, ``reference`` where that is
    said, ``instead`` the words to write today (``{}`` stands for the value; empty: nothing is needed);
    None where words alone do not do it, and ``advice`` says what does.
    """

    names: tuple[str, ...]
    kind: FlagKind
    negated: tuple[str, ...] = ()
    env: str | None = None
    choices: tuple[str, ...] = ()
    note: str | None = None
    gone: str | None = None
    reference: str | None = None
    instead: str | None = None
    advice: str | None = None

    @property
    def name(self) -> str:
        """The first long spelling: what the flag is called in records."""
        return next((name for name in self.names if name.startswith("--")), self.names[0])

    @property
    def takes_value(self) -> bool:
        """Whether a word after it belongs to it."""
        return self.kind not in _NO_VALUE


@dataclass(frozen=True, slots=True)
class FlagSet:
    """All options of one engine at one version, by spelling."""

    engine: EngineName
    version: str
    source: str
    known: Mapping[str, Flag]
    removed: Mapping[str, Flag]
    by_env: Mapping[str, Flag] = field(default_factory=dict)

    def find(self, spelled: str) -> Flag | None:
        """The option of exactly this spelling, today's or a removed one."""
        return self.known.get(spelled) or self.removed.get(spelled)

    def speaks_for(self, version: str | None) -> bool:
        """Whether the list is that of this version; one that is not known is taken to be the same."""
        asked = parse_version(version, self.engine)
        return asked is None or asked == parse_version(self.version, self.engine)

    def is_gone(self, flag: Flag, version: str | None) -> bool:
        """Whether an option is known to be missing from this version."""
        if flag.gone is None:
            return False
        asked = parse_version(version, self.engine)
        return asked is None or asked >= (parse_version(flag.gone, self.engine) or asked)

    def close_to(self, spelled: str) -> list[str]:
        """Options that look like a misspelled one, best first."""
        if len(spelled) > _LONGEST:
            return []
        return list(_close(self.engine, spelled))


@lru_cache(maxsize=1024)
def _close(engine: EngineName, spelled: str) -> tuple[str, ...]:
    flags = flag_set(engine)
    names = [name for name in (*flags.known, *flags.removed) if abs(len(name) - len(spelled)) <= _APART]
    return tuple(difflib.get_close_matches(spelled, names, n=3, cutoff=0.75))


@cache
def flag_set(engine: EngineName) -> FlagSet:
    """The options of an engine."""
    name = f"flags_{engine.replace('-', '_')}.json"
    data = json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))
    flags = [_flag(row) for row in data["flags"]]
    return FlagSet(
        engine=data["engine"],
        version=data["version"],
        source=data["source"],
        known=_by_spelling(flags),
        removed=_by_spelling([_flag(row) for row in data["removed"]]),
        by_env={flag.env: flag for flag in flags if flag.env},
    )


def _flag(row: dict[str, Any]) -> Flag:
    fields: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in row.items()
    }
    return Flag(**fields)


def _by_spelling(flags: list[Flag]) -> dict[str, Flag]:
    return {name: flag for flag in flags for name in (*flag.names, *flag.negated)}
