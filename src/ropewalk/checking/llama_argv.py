"""llama-server's arguments as llama-server reads them: no ``=``, no abbreviations, leading digits only.

Rules of llama.cpp b11434, common/arg.cpp ``common_params_parse_ex``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ropewalk.checking.diagnostics import Diagnostic, Repair, diagnostic, remove_flags, set_flag
from ropewalk.checking.flags import Flag, FlagSet
from ropewalk.checking.numbers import Prefix, stof, stoi
from ropewalk.checking.parsed_option import ParsedOption
from ropewalk.checking.script import is_unknown
from ropewalk.checking.unknown_flags import nearest, unknown_flag
from ropewalk.errors import UsageError
from ropewalk.units import MIB, parse_size, parse_tokens

_TRUE = frozenset({"on", "enabled", "true", "1"})


def read_words(arguments: Sequence[str], env: Mapping[str, str], flags: FlagSet) -> tuple[ParsedOption, ...]:
    """Group the words by option: first what variables set, then the command line, which overrules it."""
    return (*_from_env(env, flags), *_from_words(list(arguments), flags))


def _from_env(env: Mapping[str, str], flags: FlagSet) -> Iterator[ParsedOption]:
    for variable, text in env.items():
        negated = variable.startswith("LLAMA_ARG_NO_")
        flag = flags.by_env.get(variable.replace("_NO_", "_", 1) if negated else variable)
        if flag is None:
            continue
        if flag.takes_value:
            yield ParsedOption(flag.name, (), (text,), flag, env=variable)
        elif flag.kind == "bool" or text in _TRUE:
            yield ParsedOption(flag.name, (), (), flag, negated=negated or text not in _TRUE, env=variable)


def _from_words(words: list[str], flags: FlagSet) -> Iterator[ParsedOption]:
    at = 0
    while at < len(words):
        spelled = _dashed(words[at])
        flag = flags.find(spelled)
        end = (
            _end_of_unknown(words, at + 1) if flag is None else at + 1 + _wanted(flag, words[at + 1 :], flags)
        )
        values = tuple(words[at + 1 : end])
        name = flag.name if flag else words[at]
        negated = flag is not None and spelled in flag.negated
        yield ParsedOption(name, (words[at], *values), values, flag, negated)
        at = end


def _wanted(flag: Flag, after: Sequence[str], flags: FlagSet) -> int:
    """How many words belong to an option.

    llama-server takes the next word whatever it is; where that is an option and can be no value, it
    stops, and reading on from the option tells more than stopping too.
    """
    if not flag.takes_value:
        return 0
    if flag.kind == "pair":
        return 2
    word = after[0] if after else ""
    if flag.choices:
        return 0 if word.startswith("-") and word not in flag.choices else 1
    return 0 if flag.kind in ("int", "float") and flags.find(_dashed(word)) else 1


def _dashed(word: str) -> str:
    """Underscores count as dashes in long options."""
    return word.replace("_", "-") if word.startswith("--") else word


def _end_of_unknown(words: Sequence[str], at: int) -> int:
    """The words after an unknown option that cannot be options themselves are taken for its values."""
    while at < len(words) and not words[at].startswith("-"):
        at += 1
    return at


def read_values(
    options: Sequence[ParsedOption], flags: FlagSet, version: str | None
) -> tuple[dict[str, Any], list[Diagnostic]]:
    """Each option's value as llama-server reads it, the last one counting, and what is wrong with it."""
    parsed: dict[str, Any] = {}
    diagnostics: list[Diagnostic] = []
    seen: dict[str, ParsedOption] = {}
    for item in options:
        before = seen.get(item.name)
        appends = item.flag is not None and item.flag.kind == "append"
        if before is not None and not appends:
            diagnostics.append(_repeated(before, item))
        seen[item.name] = item
        if item.flag is None:
            diagnostics.append(_unknown(item, flags, version))
        elif item.flag.takes_value and len(item.values) < (2 if item.flag.kind == "pair" else 1):
            diagnostics.append(_no_value(item))
        else:
            former = parsed.pop(item.name, None)  # the order is that of the settings that count
            parsed[item.name], problem = _value(item.flag, item)
            if appends and former:
                parsed[item.name] = f"{former},{parsed[item.name]}"
            diagnostics += [problem] if problem else []
    return parsed, diagnostics


def _value(flag: Flag, item: ParsedOption) -> tuple[Any, Diagnostic | None]:
    if not flag.takes_value:
        return not item.negated, None
    if flag.kind == "pair":
        return list(item.values), None
    if is_unknown(item.text) and (flag.choices or flag.kind in ("int", "float")):
        return None, _unknown_value(item)
    if flag.choices and item.text not in flag.choices:
        return item.text, _bad_choice(flag, item)
    if flag.kind not in ("int", "float"):
        return item.text, None
    try:
        read = stoi(item.text) if flag.kind == "int" else stof(item.text)
    except ValueError as error:
        return item.text, _bad_number(item, str(error))
    return read.value, _unread(item, read) if read.rest.strip() else None


def _unknown_value(item: ParsedOption) -> Diagnostic:
    return diagnostic(
        "variable_unknown",
        "warning",
        f"{item.text} is a variable of the shell without a value: {item.name} is judged as if not given",
        fix=f"the value of {item.text} in its place",
        flag=item.name,
        value=item.text,
    )


def _unread(item: ParsedOption, read: Prefix) -> Diagnostic:
    """Only the leading digits were read; a unit was probably meant."""
    meant = _meant(item)
    return diagnostic(
        "unit_suffix",
        "error",
        f"llama-server reads {item.text!r} after {item.name} as {read.value}: units are not understood, "
        f"and {read.rest.strip()!r} is dropped without a word",
        repair=set_flag(
            item.name, read.value if meant is None else meant, short=item.words[0] if item.words else None
        ),
        value=item.text,
        read=read.value,
    )


def _meant(item: ParsedOption) -> int | None:
    """A count of tokens with its unit, or of MiB where the option counts those."""
    try:
        if item.name == "--cache-ram":
            return -(-parse_size(item.text if item.text[-1:] in "bB" else f"{item.text}iB") // MIB)
        return parse_tokens(item.text)
    except UsageError:
        return None


def _bad_number(item: ParsedOption, why: str) -> Diagnostic:
    if item.env and not item.text.strip():
        return diagnostic(
            "bad_value",
            "error",
            f"llama-server stops at the empty variable {item.env}: it is read as a number",
            fix=f"unset {item.env}",
            repair=remove_flags(item.name),
            value=item.text,
            variable=item.env,
        )
    return diagnostic(
        "bad_value",
        "error",
        f"llama-server stops at {item.name} {item.text}: {why}",
        fix=f"give {item.name} a number",
        flag=item.name,
        value=item.text,
    )


def _bad_choice(flag: Flag, item: ParsedOption) -> Diagnostic:
    allowed = ", ".join(flag.choices)
    meant = nearest(item.text, flag.choices)
    return diagnostic(
        "bad_value",
        "error",
        f"llama-server does not take {item.text!r} for {item.name}; it takes {allowed}",
        fix=f"{item.name} with one of {allowed}",
        repair=set_flag(item.name, meant) if meant else None,
        flag=item.name,
        value=item.text,
        allowed=list(flag.choices),
    )


def _no_value(item: ParsedOption) -> Diagnostic:
    if item.name == "--flash-attn":
        return diagnostic(
            "bad_value",
            "error",
            f"{item.words[0]} needs a value, on, off or auto (ggml-org/llama.cpp#15434): "
            "the server takes the next word for it and stops",
            repair=set_flag(item.name, "on", short="-fa"),
        )
    return diagnostic(
        "bad_value",
        "error",
        f"{item.words[0]} has no value: the server takes the next option for it, or stops at the end",
        fix=f"give {item.name} a value",
        flag=item.name,
    )


def _repeated(before: ParsedOption, item: ParsedOption) -> Diagnostic:
    first = before.env or " ".join(before.words)
    return diagnostic(
        "setting_overruled",
        "warning",
        f"{item.name} is set twice: {' '.join(item.words)!r} overrules {first!r}",
        fix="keep one of the two",
        repair=Repair({item.name: item.words}),
    )


def _unknown(item: ParsedOption, flags: FlagSet, version: str | None) -> Diagnostic:
    spelled, equals, value = item.name.partition("=")
    if not equals or flags.find(_dashed(spelled)) is None:
        return unknown_flag(item, _dashed(item.name), flags, version)
    return diagnostic(
        "unknown_flag",
        "error",
        f"llama-server does not split {item.name!r} at '=': it stops with an invalid argument",
        repair=set_flag(item.name, value, *item.values, short=spelled),
    )
