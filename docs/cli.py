"""``cli.md``: every command with its arguments and options, from the commands themselves."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import click

from docs.markdown import table
from ropewalk.cli import runs_import
from ropewalk.cli.app import COMMANDS, COMPLETION, EXIT_STATUS, app

_BELOW = {"runs": runs_import.command}  # commands that click does not know as such
_FORM_FEED = "\b"
_EVERYWHERE = ("-h, --help", "--help", "--debug")  # said once


def cli_page() -> str:
    """The whole reference."""
    parts = [_INTRODUCTION]
    context = click.Context(app, info_name="ropewalk")
    for heading, section in COMMANDS.items():
        parts.append(f"## {heading}\n")
        for name in section:
            command = app.get_command(context, name)
            assert command is not None, name  # noqa: S101
            parts.append(_command(command, context))
            if name in _BELOW:
                parts.append(_command(_BELOW[name], context, f"{name} "))
    parts.append(f"## Exit status\n\n```text{EXIT_STATUS}```\n")
    parts.append(f"## Shell completion\n\n```sh{COMPLETION}```\n")
    return "\n".join(parts)


def _command(command: click.Command, parent: click.Context, prefix: str = "") -> str:
    name = f"{prefix}{command.name}"
    context = click.Context(command, parent=parent, info_name=command.name)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"### {name}\n", f"`ropewalk {name} {usage}`\n", _text(command.help)]
    groups: dict[str, list[tuple[str, str]]] = {}
    for param in command.get_params(context):
        record = param.get_help_record(context)
        if record is not None and record[0] not in _EVERYWHERE and not isinstance(param, click.Argument):
            groups.setdefault(getattr(param, "group", "Options"), []).append(record)
    for group in sorted(groups, key=lambda group: group == "Options"):
        lines.append(table(group, "", rows=[(f"`{flags}`", text) for flags, text in groups[group]]))
    examples: Any = getattr(command, "examples", "")
    if examples:
        lines.append(f"```sh\n{dedent(examples).strip()}\n```\n")
    if isinstance(command, click.Group):
        inner = [command.get_command(context, one) for one in command.list_commands(context)]
        lines += [_command(one, context, f"{name} ") for one in inner if one is not None]
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
