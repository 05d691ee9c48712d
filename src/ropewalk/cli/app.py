"""The ``ropewalk`` command: which commands there are, how one is loaded, how a failure ends."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from importlib import import_module

import click

from ropewalk._version import __version__
from ropewalk.cli.command import CONTEXT_SETTINGS, debug_option, write_lines
from ropewalk.cli.failures import report

# Heading, then command: what it does in one line. The module of a command is named after it.
COMMANDS: dict[str, dict[str, str]] = {
    "Read a checkpoint": {
        "inspect": "What a checkpoint is, from its headers, and what is wrong with it.",
        "tensors": "Every tensor, identical blocks folded.",
        "rope": "Rotation rates, wavelengths, what scaling does to each pair.",
    },
    "Plan": {
        "plan": "Rope decision, memory term by term, what fits, the exact command.",
        "bake": "YaRN written into the header of a copy of a GGUF file.",
        "choose": "Which file, engine, cache type and placement hold a length here.",
        "compare": "Two checkpoints, plans, runs or logs: only what differs.",
        "check": "Judge an existing vllm or llama-server command line.",
    },
    "Serve": {
        "serve": "Launch the planned server, plan beside reality, stop cleanly.",
        "servers": "What serve --detach left running.",
        "stop": "Stop such a server.",
    },
    "Measure": {
        "measure": "Recall, memory and speed of several arms on identical prompts.",
        "runs": "Past measurements, one of them, its report.",
        "receipts": "Plans beside logs as numbers alone, to be shared.",
        "attend": "One head's attention, by hand and checked.",
        "demo": "All of it on a real model with the embedded engine, in minutes.",
    },
    "Front ends": {
        "tui": "The application in the terminal.",
        "web": "The same application in a browser.",
        "api": "The HTTP service.",
    },
    "This machine": {
        "doctor": "Engines found, devices, memory.",
        "engine": "Install an engine.",
    },
}

EXIT_STATUS = """
0  done, verdict positive
1  done, verdict negative: does not fit, refused, recall below the bar,
   a finding of severity error
2  wrong usage
3  the checkpoint cannot be read
4  the engine is missing, failed or did not answer
"""
COMPLETION = """
bash  eval "$(_ROPEWALK_COMPLETE=bash_source ropewalk)"
zsh   eval "$(_ROPEWALK_COMPLETE=zsh_source ropewalk)"
fish  _ROPEWALK_COMPLETE=fish_source ropewalk | source
"""


class Commands(click.Group):
    """Loads the module of a command when that command is asked for, and no other."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the help."""
        return [name for section in COMMANDS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name; its module is imported now."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"ropewalk.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first word; where that is none, what to type instead."""
        word = args[0]
        if self.get_command(ctx, word) is None and not word.startswith("-"):
            close = difflib.get_close_matches(word, self.list_commands(ctx), n=1)
            if close:
                ctx.fail(f"there is no command {word!r}; did you mean {close[0]!r}?")
            if os.path.exists(word):
                ctx.fail(f"there is no command {word!r}; for that file or folder: ropewalk inspect {word}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by heading, without importing them."""
        for heading, section in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl(list(section.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Exit statuses and shell completion."""
        write_lines(formatter, "Exit status", EXIT_STATUS)
        write_lines(formatter, "Shell completion", COMPLETION)


@click.group(cls=Commands, context_settings=CONTEXT_SETTINGS, params=[debug_option()])
@click.version_option(__version__, prog_name="ropewalk", message="%(prog)s %(version)s")
def app() -> None:
    """Inspect, plan, serve and measure open-weights language models at long context.

    Start with `ropewalk inspect CHECKPOINT`, or `ropewalk demo` for a tour. CHECKPOINT is a folder, a
    .safetensors file, an index, a config.json, a .gguf file, or a Hub id org/name[@revision].
    """


def run(argv: Sequence[str]) -> int:
    """Run one command line; the exit status. Nothing that a user can cause leaves as an exception."""
    given = argv[: argv.index("--")] if "--" in argv else argv
    try:
        status = app.main(args=list(argv), prog_name="ropewalk", standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:
        return report(error, as_json="--json" in given, debug="--debug" in given)
    return status if isinstance(status, int) else 0
