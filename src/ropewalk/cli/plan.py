"""``ropewalk plan``: what it takes to serve a checkpoint at a context length."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, checkpoint_argument, json_option, option
from ropewalk.cli.params import FILE, NEW_FILE, longest_option, plan_options, plan_options_of, spell
from ropewalk.cli.spread import node_addresses_option
from ropewalk.engines import EngineName, engine_of, readers_of
from ropewalk.errors import UsageError
from ropewalk.report.figures import printable

if TYPE_CHECKING:
    from ropewalk.emit import EmitKind
    from ropewalk.planner.records import Plan

_EMIT = "Start it elsewhere"


@click.command(
    "plan",
    cls=Command,
    examples="""
        ropewalk plan ./Qwen3-8B --context 128k --engine vllm --memory 48GiB
        ropewalk plan model.gguf --context 32k --sequences 4 --cache-type q8_0
        ropewalk plan ./Qwen3-8B --context 64k --engine-version 0.33.0 --emit k8s > qwen3.yaml
    """,
)
@checkpoint_argument
@longest_option
@plan_options
@node_addresses_option
@option("--engine-path", type=FILE, help="The engine to plan for instead of the one found.")
@option(
    "--beside",
    type=FILE,
    multiple=True,
    metavar="PLAN.JSON",
    help="A plan (--json) of another server on the same devices; what it holds is not there for this one.",
)
@option("--confirm", is_flag=True, help="Have the engine itself work out its memory; no weight is read.")
@option("--sources", is_flag=True, help="Show where the rule of each memory term was read.")
@option(
    "--emit",
    "kind",
    type=click.Choice(["shell", "k8s", "slurm", "skypilot", "docker", "compose", "systemd"]),
    group=_EMIT,
    help="Print what starts the planned server there instead of the page.",
)
@option(
    "--output",
    "output_path",
    type=NEW_FILE,
    group=_EMIT,
    help="Write that to a file, and print the page all the same.",
)
@option("--accelerator", metavar="NAME", group=_EMIT, help="SkyPilot's name of the GPU: H100, L4, ...")
@json_option
def command(
    checkpoint: str,
    context_len: int,
    engine_path: Path | None,
    beside: tuple[Path, ...],
    confirm: bool,
    sources: bool,
    kind: EmitKind | None,
    output_path: Path | None,
    accelerator: str | None,
    node_addresses: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> int:
    """Decide the rope scaling, count the memory as the engine allocates it, and write the command.

    With --emit the command is written as a script or manifest for machines elsewhere. Exit status 1 where
    it does not fit the budget or is refused; then nothing is emitted.
    """
    _check(kind, output_path, accelerator, as_json=as_json)
    with output.waiting("asking the engine" if confirm else f"planning for {checkpoint}"):
        plan = core.plan(
            checkpoint,
            engine_path=None if engine_path is None else str(engine_path),
            confirm=confirm,
            node_addresses=node_addresses,
            beside=tuple(core.read_plan(path) for path in beside),
            **plan_options_of(context_len, options),
        )
    if options.get("engine") is None:
        _say_engine(plan.request.engine)
    if kind is not None and plan.may_start:
        text = core.emit(plan, kind, accelerator=accelerator)
        if output_path is None:
            from ropewalk.report.figures import printable

            output.write(
                printable(text) if sys.stdout.isatty() else text
            )  # a name may hold a terminal's codes
            return 0
        output.write_file(output_path, text)
    elif kind is not None:
        click.echo(_why_nothing_is_emitted(plan), err=True)
        if output_path is None:
            return 1
    if as_json:
        output.document(plan)
    else:
        from ropewalk.report.plan import plan_page

        output.page(plan_page(plan, sources=sources))
        if plan.launch is not None and plan.may_start:
            output.write(f"here: {serve_line(click.get_current_context(), plan)}\n")
    return 0 if plan.positive else 1


def _why_nothing_is_emitted(plan: Plan) -> str:
    """The verdict in a line: what reads the standard output of --emit gets a manifest or nothing."""
    from ropewalk.report.verdict import verdict

    said = verdict(plan)
    errors = [f"{one.code}: {one.message}" for one in plan.findings if one.severity == "error"]
    hint = ["--allow-broken writes it in spite of the errors of the checkpoint"] if plan.broken else []
    return printable(
        "\n".join((f"nothing is emitted: {said.word}  {' · '.join(said.parts)}", *errors, *hint))
    )


def serve_line(context: click.Context, plan: Plan) -> str:
    """The command that starts here what was planned: with the engine found here, wherever that is."""
    from ropewalk.cli.serve import command as serve

    taken = {param.name for param in serve.params}
    words = ["ropewalk", "serve", context.params["checkpoint"]]
    for param in context.command.params:
        name = param.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if isinstance(param, click.Option) and given and name in taken:
            words += _as_typed(param, plan.context_len if name == "context_len" else context.params[name])
    return shlex.join(words)


def _as_typed(param: click.Option, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [param.opts[0] if value else (param.secondary_opts or param.opts)[0]]
    if isinstance(value, tuple) and param.multiple:
        return [word for one in value for word in (param.opts[0], str(one))]
    return [param.opts[0], spell(param.type, value)]


def _say_engine(name: EngineName) -> None:
    """Why this engine was taken where none was named, and which others read the same format."""
    kind = engine_of(name).formats[0]
    others = ", ".join(one.name for one in readers_of(kind) if one.name != name)
    reason = f"not given; the first that serves {kind} (others that read it: {others})"
    click.echo(f"--engine {name}: {reason}", err=True)


def _check(
    kind: EmitKind | None, output_path: Path | None, accelerator: str | None, *, as_json: bool
) -> None:
    """Raise :class:`UsageError` for options that make no sense together."""
    if kind is None and (output_path or accelerator):
        raise UsageError("--output and --accelerator are for what --emit writes: add --emit KIND")
    if kind is not None and as_json and output_path is None:
        raise UsageError("--emit and --json both write to standard output: add --output FILE")
