"""``ropewalk serve``: the planned server, plan beside reality, until Ctrl-C."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, checkpoint_argument, option
from ropewalk.cli.params import COUNT, FILE, context_option, plan_options, request_fields
from ropewalk.planner.records import Plan
from ropewalk.serving.detached import leave_running
from ropewalk.serving.engines import launch_spec, pick_engine
from ropewalk.serving.launcher import RunningServer, start

_SERVER, _LOOK_SECONDS = "The server", 1.0


@click.command(
    "serve",
    cls=Command,
    examples="""
        ropewalk serve model.gguf --context 32k
        ropewalk serve ./Qwen3-8B --context 128k --memory 48GiB --port 8000
    """,
)
@checkpoint_argument
@context_option
@option("--host", default="127.0.0.1", show_default=True, group=_SERVER, help="Address to listen on.")
@option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="P",
    group=_SERVER,
    help="Port to listen on; 0 takes a free one.  [default: the engine's own]",
)
@option("--threads", type=COUNT, metavar="N", group=_SERVER, help="Threads of the engine.")
@option("--engine-path", type=FILE, group=_SERVER, help="The engine to start instead of the one found.")
@option("--log", "log_path", type=FILE, group=_SERVER, help="Where the engine's own lines go.")
@option(
    "--ready-timeout",
    type=click.FloatRange(min=1),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    group=_SERVER,
    help="How long it may take to answer.",
)
@option(
    "--detach", is_flag=True, group=_SERVER, help="Leave it running: see ropewalk servers, ropewalk stop."
)
@plan_options
def command(
    checkpoint: str,
    context_len: int,
    detach: bool,
    host: str,
    port: int | None,
    threads: int | None,
    engine_path: Path | None,
    log_path: Path | None,
    ready_timeout: float,
    **options: Any,
) -> int:
    """Launch the planned server, show what was planned beside what it reports, stop it cleanly.

    Nothing is started where the plan does not fit or is refused (exit status 1). Ctrl-C stops the
    server and everything that it started; with --detach it stays, and is watched over.
    """
    plan = core.plan(checkpoint, context_len=context_len, **request_fields(options))
    if not plan.positive:
        from ropewalk.report.plan import plan_page

        output.page(plan_page(plan))
        return 1
    build = pick_engine(plan.request.engine, path=None if engine_path is None else str(engine_path))
    spec = launch_spec(plan, build=build, host=host, port=port, threads=threads)
    log = log_path or _default_log(spec.port)
    click.echo(f"starting {build.name} {build.version or ''}; its log: {log}", err=True)
    with start(spec, log_path=log, ready_timeout=ready_timeout) as server:
        _show(plan, server, detached=detach)
        if detach:
            left = leave_running(server)
            click.echo(f"left running as process {left.pid}", err=True)
            return 0
        _wait(server)
    click.echo("stopped", err=True)
    return 0


def _show(plan: Plan, server: RunningServer, *, detached: bool) -> None:
    from ropewalk.report.serve import serve_page

    output.page(
        serve_page(
            plan,
            server.report,
            base_url=server.base_url,
            ready_seconds=server.ready_seconds,
            log_path=server.log_path,
            findings=server.findings,
            stop=f"ropewalk stop {server.spec.port}" if detached else "Ctrl-C",
        )
    )


def _wait(server: RunningServer) -> None:
    """Until Ctrl-C, which is how this command is meant to end; a server that dies is an error."""
    try:
        while True:
            server.require_alive()
            time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        click.echo("\nstopping", err=True)


def _default_log(port: int) -> Path:
    import platformdirs

    folder = platformdirs.user_log_path("ropewalk", ensure_exists=True)
    return folder / f"serve-{time.strftime('%Y%m%d-%H%M%S')}-{port}.log"
