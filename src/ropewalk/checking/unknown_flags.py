"""Options that the engine does not have: never had, or no longer."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

from ropewalk.checking.diagnostics import Diagnostic, Edits, remark
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
    edits: Edits = {}
    if severity == "error" and len(meant) < 2:  # several candidates are for a person to choose from
        edits = {item.name: (close[0], *item.values) if close else None}
    return remark(
        "unknown_flag",
        severity,
        f"{spelled!r} is no argument of {flags.engine} {flags.version}"
        + (f"; {len(begun)} begin so" if begun else "")
        + ("" if severity == "error" else f"; whether {version} has it is not known here"),
        fix=f"did you mean {' or '.join(close)}?" if close else f"remove {shlex.join(item.words)}",
        edits=edits,
        flag=spelled,
        close=close,
    )


def absent_flags(given: Iterable[ParsedOption], flags: FlagSet, version: str | None) -> Iterator[Diagnostic]:
    """Removed options with what to write instead, and those that are still taken and do nothing."""
    for item in given:
        if item.flag is None:
            continue
        if flags.is_gone(item.flag, version):
            yield _removed(item, item.flag, flags)
        elif item.flag.note:
            yield remark(
                "flag_without_effect",
                "info",
                f"{item.name} {item.flag.note}",
                fix=f"remove {shlex.join(item.words)}",
                flag=item.name,
            )


def _removed(item: ParsedOption, flag: Flag, flags: FlagSet) -> Diagnostic:
    words = () if flag.instead is None else tuple(flag.instead.format(*item.values or ("",)).split())
    return remark(
        "removed_flag",
        "error",
        f"{item.name} is gone from {flags.engine} as of {flag.gone} ({flag.reference})",
        fix=flag.advice or shlex.join(words) or f"remove {shlex.join(item.words)}",
        edits=None if flag.instead is None else {item.name: words or None},
        flag=item.name,
        removed=flag.gone,
        reference=flag.reference,
    )
