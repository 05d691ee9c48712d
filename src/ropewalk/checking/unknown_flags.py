"""Options that the engine does not have: never had, or no longer."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from ropewalk.checking.diagnostics import Diagnostic, Repair, diagnostic
from ropewalk.checking.flags import Flag, FlagSet
from ropewalk.checking.parsed_option import ParsedOption
from ropewalk.findings import Severity


def unknown_flag(
    item: ParsedOption, spelled: str, flags: FlagSet, version: str | None, *, begun: Sequence[str] = ()
) -> Diagnostic:
    """An option that is in no list. ``begun`` are those that an ambiguous abbreviation may stand for.

    Where the engine is of another version than the list, and nothing looks like it, it may be real.
    """
    close = list(begun) or flags.close_to(spelled)
    meant = {flags.known.get(name, flags.removed.get(name)) for name in close}
    severity: Severity = "error" if close or flags.speaks_for(version) else "warning"
    repair = None
    if severity == "error" and len(meant) < 2:  # several candidates are for a person to choose from
        repair = Repair({item.name: (close[0], *item.values) if close else ()})
    return diagnostic(
        "unknown_flag",
        severity,
        f"{spelled!r} is no argument of {flags.engine} {flags.version}"
        + (f"; {len(begun)} begin so" if begun else "")
        + ("" if severity == "error" else f"; whether {version} has it is not known here"),
        fix=f"did you mean {' or '.join(close)}?" if close else f"remove {shlex.join(item.words)}",
        repair=repair,
        flag=spelled,
        close=close,
    )


def absent_flags(
    options: Iterable[ParsedOption], flags: FlagSet, version: str | None
) -> Iterator[Diagnostic]:
    """Removed options with what to write instead, and those that are still taken and do nothing."""
    for item in options:
        if item.flag is None:
            continue
        if flags.is_gone(item.flag, version):
            yield _removed(item, item.flag, flags)
        elif item.flag.note:
            yield diagnostic(
                "flag_without_effect",
                "info",
                f"{item.name} {item.flag.note}",
                fix=f"remove {shlex.join(item.words)}",
                flag=item.name,
            )


def _removed(item: ParsedOption, flag: Flag, flags: FlagSet) -> Diagnostic:
    words = () if flag.instead is None else tuple(flag.instead.format(*item.values or ("",)).split())
    return diagnostic(
        "removed_flag",
        "error",
        f"{item.name} is gone from {flags.engine} as of {flag.gone} ({flag.reference})",
        fix=flag.advice or shlex.join(words) or f"remove {shlex.join(item.words)}",
        repair=None if flag.instead is None else Repair({item.name: words}),
        flag=item.name,
        removed=flag.gone,
        reference=flag.reference,
    )


def nearest(value: str, choices: Sequence[str]) -> str | None:
    """The choice that a value was probably meant for: one that looks like it, or has its number of bits."""
    close = difflib.get_close_matches(value.lower(), choices, n=1, cutoff=0.6)
    if close:
        return close[0]
    digit = re.search(r"\d", value)
    return next((choice for choice in choices if digit and digit[0] == choice.lstrip("q")[:1]), None)
