"""vLLM's arguments as vLLM reads them: argparse, with underscores, dotted JSON keys and abbreviations.

Rules of vllm 0.32.0, utils/argparse_utils.py ``FlexibleArgumentParser.parse_args``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ropewalk.checking.diagnostics import Diagnostic, diagnostic, set_flag
from ropewalk.checking.flags import Flag, FlagSet
from ropewalk.checking.numbers import finite, human_int, human_length, json_value
from ropewalk.checking.parsed_option import ParsedOption
from ropewalk.checking.unknown_flags import unknown_flag

MODEL = "--model"
_LEVELS = frozenset({"0", "1", "2", "3"})
_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_DECIMAL_UNIT = re.compile(r"[\d.]+[kmgt]")


@dataclass(frozen=True, slots=True)
class _Option:
    """A word that looks like an option, taken apart."""

    spelled: str
    value: str | None  # after '='
    path: tuple[str, ...]  # after '.'
    append: bool  # a '+' at the end: the value is a list


def read_words(arguments: Sequence[str], flags: FlagSet) -> tuple[ParsedOption, ...]:
    """Group the words by option; the model may stand alone."""
    return tuple(_from_words(list(arguments), flags))


def _from_words(words: list[str], flags: FlagSet) -> Iterator[ParsedOption]:
    model_seen = False
    at = 0
    while at < len(words):
        word = words[at]
        if not _looks_like_option(word):
            yield ParsedOption(
                MODEL if not model_seen else word,
                (word,),
                (word,),
                flags.known[MODEL] if not model_seen else None,
            )
            model_seen = True
            at += 1
            continue
        item = _option(words, at, flags)
        yield item
        model_seen |= item.name == MODEL
        at += len(item.words)


def _option(words: Sequence[str], at: int, flags: FlagSet) -> ParsedOption:
    if words[at] == "-O" and at + 1 < len(words) and words[at + 1] in _LEVELS:
        level = flags.known["--optimization-level"]
        return ParsedOption(level.name, tuple(words[at : at + 2]), (words[at + 1],), level)
    option = _take_apart(words[at])
    flag = find(option.spelled, flags)
    if option.value is not None:
        values: tuple[str, ...] = (option.value,)
        end = at + 1
    else:
        end = at + 1 + _wanted(flag, option, words[at + 1 :])
        values = tuple(words[at + 1 : end])
    if option.append:
        values = tuple(json.dumps(value.split(",")) for value in values)
    negated = flag is not None and not option.path and _full(option.spelled, flags) in flag.negated
    name = flag.name if flag else option.spelled
    return ParsedOption(name, tuple(words[at:end]), values, flag, negated, option.path)


def _looks_like_option(word: str) -> bool:
    """What argparse takes for an option: a dash in front, no blank, no negative number."""
    return (
        len(word) > 1
        and word.startswith("-")
        and not _NEGATIVE_NUMBER.fullmatch(word)
        and (" " not in word or "=" in word.partition(" ")[0])
    )


def _take_apart(word: str) -> _Option:
    level = re.fullmatch(r"-O=?(.+)", word)
    if level:
        return _Option("--optimization-level", level[1], (), append=False)
    spelled, equals, value = word.partition("=")
    spelled, *path = spelled.split(".")
    append = bool(path) and path[-1].endswith("+")
    if append:
        path[-1] = path[-1].removesuffix("+")
    if spelled.startswith("--"):
        spelled = "--" + spelled[2:].replace("_", "-")
    return _Option(spelled, value if equals else None, tuple(path), append)


def find(spelled: str, flags: FlagSet) -> Flag | None:
    """The option of this spelling, or the only one that it abbreviates."""
    return flags.find(_full(spelled, flags))


def _full(spelled: str, flags: FlagSet) -> str:
    """An abbreviated long option written out; argparse allows it where only one option begins so."""
    if spelled in flags.known or spelled in flags.removed or not spelled.startswith("--"):
        return spelled
    begun = _begun(spelled, flags)
    return begun[0] if len({flags.known[name].name for name in begun}) == 1 else spelled


def _begun(spelled: str, flags: FlagSet) -> list[str]:
    return [name for name in flags.known if name.startswith(spelled)]


def _wanted(flag: Flag | None, option: _Option, after: Sequence[str]) -> int:
    """How many words after an option are its values."""
    free = next((i for i, word in enumerate(after) if _looks_like_option(word)), len(after))
    if option.path:
        return min(1, len(after))
    if flag is not None and not flag.takes_value:
        return 0
    return free if flag is not None and flag.kind == "list" else min(1, free)


def read_values(
    options: Sequence[ParsedOption], flags: FlagSet, version: str | None
) -> tuple[dict[str, Any], list[Diagnostic]]:
    """Each option's value as vLLM reads it, the last one counting, and what is wrong with it.

    Dotted options of one name make one JSON object, which replaces whatever else the option was given.
    """
    parsed: dict[str, Any] = {}
    diagnostics: list[Diagnostic] = []
    seen: dict[str, ParsedOption] = {}
    for item in sorted(options, key=lambda item: bool(item.path)):
        before = seen.get(item.name)
        appends = item.flag is not None and item.flag.kind == "append"
        if before is not None and not appends and not (before.path and item.path):
            diagnostics.append(_repeated(before, item))
        seen[item.name] = item
        if item.flag is None:
            diagnostics.append(_unknown(item, flags, version))
        elif item.flag.takes_value and not item.values and item.flag.kind != "optional":
            diagnostics.append(_bad(item, "it has no value", f"give {item.name} a value"))
        elif item.path:
            base = parsed.get(item.name) if before is not None and before.path else None
            parsed[item.name] = _with(base, item.path, _loose(item.text))
        elif appends:
            parsed[item.name] = [*parsed.get(item.name, ()), item.text]
        else:
            parsed[item.name], problems = _value(item.flag, item)
            diagnostics += problems
    return parsed, diagnostics


def _with(base: Any, path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """``base`` with the value at a nested place; a list is extended, as vLLM does."""
    tree = dict(base) if isinstance(base, dict) else {}
    if len(path) > 1:
        tree[path[0]] = _with(tree.get(path[0]), path[1:], value)
    elif isinstance(value, list) and isinstance(tree.get(path[0]), list):
        tree[path[0]] = [*tree[path[0]], *value]
    else:
        tree[path[0]] = value
    return tree


def _loose(text: str) -> Any:
    """A dotted option's value: JSON, else a count with its unit, else text."""
    try:
        return json_value(text)
    except ValueError:
        try:
            return human_int(text)
        except ValueError:
            return text


def _value(flag: Flag, item: ParsedOption) -> tuple[Any, list[Diagnostic]]:
    if not flag.takes_value:
        return not item.negated, []
    if flag.kind == "list":
        return list(item.values), []
    if not item.values:
        return True, []
    if flag.choices and item.text not in flag.choices:
        allowed = ", ".join(flag.choices)
        return item.text, [_bad(item, f"it takes {allowed}", f"{item.name} with one of {allowed}")]
    reader = _READERS.get(flag.kind)
    if reader is None:
        return item.text, []
    try:
        value = reader(item.text)
    except ValueError as error:
        return item.text, [_bad(item, str(error), _example(flag))]
    return value, _decimal_unit(item, value) if flag.kind in ("count", "length") else []


def _json(text: str) -> Any:
    try:
        return json_value(text)
    except ValueError as error:
        raise ValueError(f"it is no JSON ({error})") from error


_READERS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": finite,
    "count": human_int,
    "length": human_length,
    "json": _json,
}


def _example(flag: Flag) -> str:
    if flag.kind == "json":
        return f"give {flag.name} one JSON object, in single quotes so that the shell keeps it together"
    return f"give {flag.name} a plain {'number' if flag.kind == 'float' else 'integer'}"


def _decimal_unit(item: ParsedOption, value: int) -> list[Diagnostic]:
    """``128k`` is 128,000 tokens, not 131,072."""
    if not _DECIMAL_UNIT.fullmatch(item.text.strip()):
        return []
    binary = f"{item.text.strip()[:-1]}{item.text.strip()[-1].upper()}"
    meant = "" if "." in binary else f"; if you meant {binary}, write {human_int(binary)}"
    return [
        diagnostic(
            "unit_suffix",
            "warning",
            f"vLLM reads {item.text!r} after {item.name} as {value}: its small letters count in thousands",
            fix=f"{item.name} {value}{meant}",
            repair=set_flag(item.name, value),
            value=item.text,
            read=value,
        )
    ]


def _bad(item: ParsedOption, why: str, fix: str) -> Diagnostic:
    return diagnostic(
        "bad_value",
        "error",
        f"vLLM does not take {' '.join(item.words)!r}: {why}",
        fix=fix,
        flag=item.name,
        value=item.text if item.values else None,
    )


def _repeated(before: ParsedOption, item: ParsedOption) -> Diagnostic:
    new = " ".join(item.words)
    whole = (
        "; a dotted key makes an object of its own, and nothing of the JSON before is kept"
        if item.path
        else ""
    )
    return diagnostic(
        "setting_overruled",
        "warning",
        f"{item.name} is set twice: {new!r} overrules {' '.join(before.words)!r}{whole}",
        fix="keep one of the two",
        flag=item.name,
    )


def _unknown(item: ParsedOption, flags: FlagSet, version: str | None) -> Diagnostic:
    if item.name.startswith("-"):
        return unknown_flag(item, item.name, flags, version, begun=_begun(item.name, flags))
    return diagnostic(
        "unknown_flag",
        "error",
        f"vLLM takes one model and cannot place {item.name!r}",
        fix="quote JSON and lists so that the shell keeps them in one word",
        flag=item.name,
    )
