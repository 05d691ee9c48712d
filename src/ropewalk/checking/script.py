"""What stands around a command in scripts, units and pasted sessions: prompts, variables set before it.

Nothing is run or looked up: a variable has the value that the same text gives it, or its default.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from math import prod

from ropewalk.checking.shell import Word

# What a pasted session begins a line with: "user@host:~/llama$ ", "PS C:\llama> ", "(venv) $ ".
_PROMPT = re.compile(
    r"(?m)^[ \t]*(?:\([\w.-]{1,40}\) )?"
    r"(?:[\w.-]{1,40}@[\w.-]{1,60}[: ][^\s$#]{0,200}[$#]|(?:PS )?[A-Za-z]:\\[^>\n]{0,200}>|[$❯])"
    r"[ \t]+(?=\S)"
)
# PowerShell and the command prompt: $env:NAME = "value", set NAME=value.
_POWERSHELL = re.compile(r"(?mi)^[ \t]*\$env:(\w{1,80})[ \t]*=[ \t]*[\"']?([^\"'\r\n;]{0,400})[\"']?[ \t]*;?")
_BATCH = re.compile(r"(?mi)^[ \t]*@?set[ \t]+\"?([A-Za-z_]\w{0,80})=([^\"\r\n&]{0,400})\"?")
_UNIT_LINE = re.compile(r"\s*(?:ExecStart=[-@:+!]*|Exec=)")
_COMMENTS = re.compile(r"(?m)^[ \t]*[#;].*(?:\r?\n|$)")
_VARIABLE = re.compile(
    r"\$(?:\{(\w{1,80})(?::?-([^{}]{0,200}))?\}|([A-Za-z_]\w{0,80}))|%([A-Za-z_]\w{0,80})%"
)
_PRODUCT = re.compile(r"\$\(\(\s*(\d{1,12}(?:\s*\*\s*\d{1,12}){0,4})\s*\)\)")
_DEFAULT = re.compile(r"\$\{\w{1,80}:?-([^{}\n]{0,200})\}")
_UNKNOWN = re.compile(r"\$\w|\$\{\w|\$\(|%\w{1,80}%$")


def command_text(text: str) -> str:
    """The text as a shell would be given it: a unit's command, no prompts, variables set by ``export``."""
    if re.search(r"(?m)^[ \t]*ExecStart=", text) or re.search(r"(?m)^\[Container\]", text):
        return _unit_command(text)
    for pattern in (_POWERSHELL, _BATCH):
        text = pattern.sub(lambda found: f"export {found[1]}={shlex.quote(found[2].strip())}", text)
    return _PROMPT.sub("", text)


def _unit_command(text: str) -> str:
    """``ExecStart=`` of a systemd unit, continued lines with it, behind what ``Environment=`` sets; the
    ``Image=`` and ``Exec=`` of a container's (podman-systemd.unit)."""
    joined = re.sub(r"\\\r?\n", " ", _COMMENTS.sub("", text))
    settings = [line.strip() for line in joined.splitlines()]
    env = [line.partition("=")[2] for line in settings if line.startswith("Environment=")]
    image = next((line.partition("=")[2] for line in settings if line.startswith("Image=")), None)
    starts = [line for line in settings if line.startswith(("ExecStart=", "Exec="))]
    start = _UNIT_LINE.sub("", next(iter(starts), ""))
    if image is None:
        return " ".join([*env, start])
    variables = [word for line in env for each in shlex.split(line) for word in ("-e", shlex.quote(each))]
    return " ".join(["podman", "run", *variables, image, start])


def with_defaults(text: str) -> str:
    """A compose file with the defaults of its variables (``${NAME:-default}``)."""
    return _DEFAULT.sub(lambda found: found[1], text)


def expanded(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The words with the variables that are known, and products, in place; each is written as it was."""
    return [_expanded(word, values) for word in words]


def _expanded(word: str, values: Mapping[str, str]) -> str:
    if "$" not in word and "%" not in word:
        return word
    if isinstance(word, Word) and word.raw.startswith("'"):
        return word  # a shell leaves it as it is

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[3] or found[4]
        return values.get(name, found[2] if found[2] is not None else found[0])

    text = _PRODUCT.sub(lambda found: str(prod(map(int, found[1].split("*")))), str(word))
    text = _VARIABLE.sub(value, text)
    if not isinstance(word, Word) or text == word:
        return text if text != word else word
    return Word.of(text, word.raw, is_operator=word.is_operator)


def is_unknown(text: str) -> bool:
    """Whether a value is a variable that nothing here gives a value."""
    return _UNKNOWN.match(text) is not None
