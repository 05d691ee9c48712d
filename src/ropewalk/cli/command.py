"""The shape that all commands share: options in named groups, an example each, ``--json``, ``--debug``."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import click

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Option(click.Option):
    """An option that knows under which heading ``--help`` lists it."""

    def __init__(self, *args: Any, group: str = "Options", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Required and default, but not ``x>=1``: a count below one is refused with words of its own."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


class Command(click.Command):
    """A command whose help ends with examples; every one takes ``--debug``."""

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        kwargs["context_settings"] = {**CONTEXT_SETTINGS, **kwargs.get("context_settings", {})}
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.params.append(debug_option())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options group by group, in the order in which the groups first appear."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and not isinstance(param, click.Argument):
                groups.setdefault(getattr(param, "group", "Options"), []).append(record)
        for name in sorted(groups, key=lambda name: name == "Options"):
            with formatter.section(name):
                formatter.write_dl(groups[name])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples as they stand, one command per line."""
        write_lines(formatter, "Examples", self.examples)


def write_lines(formatter: click.HelpFormatter, heading: str, text: str) -> None:
    """A section of the help whose lines are kept as written."""
    if text:
        with formatter.section(heading):
            for line in dedent(text).strip().splitlines():
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def option(*names: str, group: str = "Options", **kwargs: Any) -> Callable[[Any], Any]:
    """``click.option`` with a heading."""
    return click.option(*names, cls=Option, group=group, **kwargs)


def debug_option() -> click.Option:
    """``--debug``, read from the command line by :func:`ropewalk.cli.app.run`."""
    return Option(
        ["--debug"], is_flag=True, expose_value=False, help="Show the traceback of an unexpected error."
    )


json_option = option(
    "--json", "as_json", is_flag=True, is_eager=True, help="Print one JSON document and nothing else."
)
checkpoint_argument = click.argument("checkpoint", type=click.Path(path_type=str))
