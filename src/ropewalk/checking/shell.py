"""A command as typed into a shell, split into words that remember how they were written.

Nothing is expanded: ``~`` and ``$HOME`` stay as they are, in the word and in what a repair writes.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence

from ropewalk.errors import UsageError
from ropewalk.limits import MAX_COMMAND_CHARS, MAX_COMMAND_WORDS

_OPERATOR = re.compile(r"(?:\d?>>?&?\d?-?|&>>?|<<?<?|\|\|?|&&?|;;?)")
_PLAIN = re.compile(r"[^\s'\"\\$`|&;<>{]+")
_BLANK = re.compile(r"\s+")
_WINDOWS_PATH = re.compile(r"\"?[A-Za-z]:|.*\.exe$|\.{1,2}(?:$|\\)", re.IGNORECASE)
_JSON = json.JSONDecoder()


class Word(str):
    """A word's value; ``raw`` is how it stands in the command. ``is_operator``: it is the shell's own."""

    __slots__ = ("is_operator", "raw")
    raw: str
    is_operator: bool

    @classmethod
    def of(cls, value: str, raw: str, *, is_operator: bool = False) -> Word:
        """A word that was written as ``raw``."""
        word = cls(value)
        word.raw, word.is_operator = raw, is_operator
        return word


def quoted(word: str) -> str:
    """A word as it is to stand in a shell: as the user wrote it, or quoted where it needs that."""
    return word.raw if isinstance(word, Word) else shlex.quote(word)


def join(words: Sequence[str]) -> str:
    """Words as one command line."""
    return " ".join(quoted(word) for word in words)


def bounded(words: int, characters: int) -> None:
    """Raises :class:`UsageError` for a command that no system would start."""
    for name, count, most in (
        ("words", words, MAX_COMMAND_WORDS),
        ("characters", characters, MAX_COMMAND_CHARS),
    ):
        if count > most:
            raise UsageError(
                f"the command has {count:,} {name}, at most {most:,} are read",
                where={name: count, "maximum": most},
            )


def split(text: str) -> list[Word]:
    """The words and operators of a command line.

    A backslash, caret or backtick at the end of a line continues it, and so does a next line that begins with
    an option. Raises :class:`UsageError` for a quotation without an end and for more than 2^18 characters.
    """
    bounded(0, len(text))
    words = list(_words(re.sub(r"(?:\\|(?<=\s)[\^`])\r?\n", " ", text)))
    bounded(len(words), 0)
    return words


def _words(text: str) -> Iterator[Word]:
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\n":
            blank = _BLANK.match(text, at)
            at = blank.end() if blank else at + 1
            if at < len(text) and text[at] != "-":
                yield Word.of(";", ";", is_operator=True)
        elif char.isspace():
            at += 1
        elif char == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif operator := _OPERATOR.match(text, at):
            yield Word.of(operator[0], operator[0], is_operator=True)
            at = operator.end()
        else:
            end, value = _word(text, at)
            raw = text[at:end]
            yield Word.of(value, shlex.quote(value) if '{"' in raw and raw == value else raw)
            at = end


def _word(text: str, at: int) -> tuple[int, str]:
    """Where a word ends, and its value."""
    start, parts = at, list[str]()
    while at < len(text) and not text[at].isspace():
        char = text[at]
        if char in "|&;<>":
            break
        if char == "'":
            end = _closing(text, at, "'")
            parts.append(text[at + 1 : end])
            at = end + 1
        elif char == '"':
            end, value = _double_quoted(text, at)
            parts.append(value)
            at = end
        elif char == "\\":
            literal = _WINDOWS_PATH.match(text[start:at]) is not None
            parts.append("\\" if literal else text[at + 1 : at + 2])
            at += 1 if literal else 2
        elif text.startswith('{"', at) and (closed := _json_end(text, at)):
            parts.append(text[at:closed])
            at = closed
        elif char == "`" or text.startswith("$(", at):
            end = _substitution(text, at)
            parts.append(text[at:end])
            at = end
        else:
            plain = _PLAIN.match(text, at)
            end = plain.end() if plain else at + 1
            parts.append(text[at:end])
            at = end
    return at, "".join(parts)


def _json_end(text: str, at: int) -> int | None:
    """The end of an object of JSON that stands without quotes, as in a list of arguments; None for none.

    A shell would take it apart, which nobody means.
    """
    try:
        _, end = _JSON.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None
    return end


def _double_quoted(text: str, at: int) -> tuple[int, str]:
    """The end behind a text in double quotes, and its value."""
    end, parts = at + 1, list[str]()
    while end < len(text):
        char = text[end]
        if char == '"':
            return end + 1, "".join(parts)
        if char == "\\" and text[end + 1 : end + 2] in ('"', "\\", "$", "`"):
            end += 1
            char = text[end]
        parts.append(char)
        end += 1
    raise _unclosed(text, at)


def _substitution(text: str, at: int) -> int:
    """The end behind ``$(...)`` or a text in backticks, which are not run."""
    if text[at] == "`":
        return _closing(text, at, "`") + 1
    depth, end = 1, at + 2
    while end < len(text) and depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    if depth:
        raise _unclosed(text, at)
    return end


def _closing(text: str, at: int, quote: str) -> int:
    end = text.find(quote, at + 1)
    if end < 0:
        raise _unclosed(text, at)
    return end


def _unclosed(text: str, at: int) -> UsageError:
    return UsageError(
        f"the command cannot be split into words: no closing quotation for {text[at : at + 20]!r}",
        where={"command": text[:200], "character": at},
    )
