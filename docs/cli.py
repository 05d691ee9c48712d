"""``cli.md``: every command with its arguments and options, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import dedent

import click

from docs.markdown import table
from ropewalk.cli import runs_import
from ropewalk.cli.app import COMMANDS, COMPLETION, EXIT_STATUS, app

_BELOW = {"runs": runs_import.command}  # commands that click does not know as such
_FORM_FEED = "\b"
ENVIRONMENT = {
    "ROPEWALK_LLAMA_SERVER": "The llama-server to use, before those on the path and in the environment.",
    "ROPEWALK_VLLM": "The vllm command, or an interpreter that has vLLM, to use before others.",
    "ROPEWALK_LLAMA_CPP_PYTHON": "The interpreter that has llama-cpp-python[server], before others.",
    "ROPEWALK_ENGINES": "Where `ropewalk engine add` installs, instead of the user's data folder.",
    "ROPEWALK_TOKEN": "The token of `ropewalk api`, at least 16 characters, instead of one made up.",
    "HF_TOKEN, HF_ENDPOINT, HF_HOME": "Token, address and cache of the Hub, as its own tools take them.",
    "NO_COLOR": "Not empty: no colour and no other escape codes.",
    "COLUMNS": "How wide pages are where no terminal tells.",
}
_EVERYWHERE = ("-h, --help", "--help", "--debug")  # said once


def cli_page() -> str:
    """The whole reference."""
    parts = [_INTRODUCTION]
    for heading, section in COMMANDS.items():
        parts.append(f"## {heading}\n")
        parts += [_command(said) for name in section for said in said_of(name)]
    parts.append("## Environment\n")
    parts.append(table("variable", "", rows=[(f"`{name}`", text) for name, text in ENVIRONMENT.items()]))
    parts.append(f"## Exit status\n\n```text{EXIT_STATUS}```\n")
    parts.append(f"## Shell completion\n\n```sh{COMPLETION}```\n")
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class Said:
    """What the help of one command says; ``groups`` are its options by heading, with their texts."""

    name: str
    usage: str
    text: str
    groups: dict[str, list[tuple[str, str]]]
    examples: str


def said_of(name: str) -> Iterator[Said]:
    """A command by its name, and those below it."""
    context = click.Context(app, info_name="ropewalk")
    command = app.get_command(context, name)
    assert command is not None, name  # noqa: S101
    yield _said(command, context, name)
    below: list[click.Command] = [_BELOW[name]] if name in _BELOW else []
    if isinstance(command, click.Group):
        below += [
            one for inner in command.list_commands(context) if (one := command.get_command(context, inner))
        ]
    for one in below:
        yield _said(one, context, f"{name} {one.name}")


def _said(command: click.Command, parent: click.Context, name: str) -> Said:
    context = click.Context(command, parent=parent, info_name=command.name)
    groups: dict[str, list[tuple[str, str]]] = {}
    for param in command.get_params(context):
        record = param.get_help_record(context)
        if record is not None and record[0] not in _EVERYWHERE and not isinstance(param, click.Argument):
            groups.setdefault(getattr(param, "group", "Options"), []).append(record)
    return Said(
        name=name,
        usage=f"ropewalk {name} {' '.join(command.collect_usage_pieces(context))}",
        text=_text(command.help),
        groups={group: groups[group] for group in sorted(groups, key=lambda group: group == "Options")},
        examples=dedent(getattr(command, "examples", "")).strip(),
    )


def _command(said: Said) -> str:
    lines = [f"### {said.name}\n", f"`{said.usage}`\n", said.text]
    for group, records in said.groups.items():
        lines.append(table(group, "", rows=[(f"`{flags}`", text) for flags, text in records]))
    if said.examples:
        lines.append(f"```sh\n{said.examples}\n```\n")
    return "\n".join(lines)


def _text(help_text: str | None) -> str:
    paragraphs = dedent(help_text or "").replace(_FORM_FEED, "").strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs) + "\n"


_INTRODUCTION = """# Command line

`CHECKPOINT` is a folder, a `.safetensors` file, a `*.index.json`, a `config.json`, a `.gguf` file (any part
of a split one), or a Hub id `org/name[@revision]`, of which only headers are fetched; `HF_ENDPOINT`,
`HF_TOKEN` and the local cache are honoured. `TOKENS` is a whole number, or one with `k` or `Ki` (x 1,024) or
`M` or `Mi` (x 1,048,576). A size is `24GiB`, `24GB` (10^9) or bytes.

With `--json` standard output is one JSON document; everything else goes to standard error. The schemas are
in [schemas](https://github.com/ropewalk/ropewalk/tree/main/docs/schemas). `NO_COLOR` is respected. Every
command takes `--help`, and `--debug`, which shows the traceback of an unexpected error.
"""
