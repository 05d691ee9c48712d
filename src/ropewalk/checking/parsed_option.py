"""A command line as it was written: words grouped by the option that they belong to."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.checking.flags import Flag


@dataclass(frozen=True, slots=True)
class ParsedOption:
    """An option with its values, as written.

    ``flag`` is None for an unknown one, and for words that belong to none. ``words`` are what stands on
    the command line, ``values`` what the option was given; ``path`` is the place within a JSON value
    that a dotted option sets; ``env`` names the variable that set it, if one did.
    """

    name: str
    words: tuple[str, ...]
    values: tuple[str, ...] = ()
    flag: Flag | None = None
    negated: bool = False
    path: tuple[str, ...] = ()
    env: str | None = None

    @property
    def text(self) -> str:
        """The option's value where it takes exactly one."""
        return self.values[0]
