"""``ropewalk serve``: the planned server, plan beside reality, until Ctrl-C."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, checkpoint_argument, option
from ropewalk.cli.params import COUNT, FILE, context_option, plan_options, plan_options_of
from ropewalk.cli.spread import spread_options, take_spread
from ropewalk.findings import has_error
from ropewalk.report.figures import printable
from ropewalk.serving.service import ServeSettings, Service
from ropewalk.units import format_seconds

if TYPE_CHECKING:
    from rich.console import Console

_SERVER, _LOOK_SECONDS = "The server", 1.0


@click.command(
    "serve",
    cls=Command,
    examples="""
        ropewalk serve model.gguf --context 32k
        ropewalk serve ./Qwen3-8B --context 128k --memory 48GiB --port 8000 --verify
        ropewalk serve model.gguf --context 32k --detach
        ropewalk serve ./Llama-70B --context 64k --nodes 2 --node-addresses 10.0.0.1,10.0.0.2
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
@option("--log", "log_path", type=FILE, group=_SERVER, help="Log file of the engine.")
@option(
    "--ready-timeout",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    group=_SERVER,
    help="How long it may take to answer.  [default: the engine's own pace]",
)
@option(
    "--confirm",
    is_flag=True,
    group=_SERVER,
    help="Have the engine itself work out its memory before it starts; no weight is read.",
)
@option(
    "--verify",
    is_flag=True,
    group=_SERVER,
    help="Fill the whole context once, and see that the rope is really scaled.",
)
@option("--force", is_flag=True, group=_SERVER, help="Start in spite of a check that failed.")
@option(
    "--detach", is_flag=True, group=_SERVER, help="Leave it running: see ropewalk servers, ropewalk stop."
)
@spread_options
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
    ready_timeout: float | None,
    confirm: bool,
    verify: bool,
    force: bool,
    **options: Any,
) -> int:
    """Launch the planned server, show what was planned beside what it reports, stop it cleanly.

    Nothing is started where the plan does not fit, is refused, or is known to fail, and nothing stays
    that does not hold what was planned: exit status 1. Ctrl-C stops the server and everything that it
    started; with --detach it stays, and is watched over.
    """
    settings = ServeSettings(
        host=host,
        port=port,
        threads=threads,
        engine_path=None if engine_path is None else str(engine_path),
        log_path=log_path,
        ready_timeout=ready_timeout,
        verify=verify,
        force=force,
        spread=take_spread(options),
    )
    with output.waiting(f"planning for {checkpoint}"):
        inspection = core.inspect(checkpoint)
        plan = core.plan(
            inspection,
            engine_path=settings.engine_path,
            confirm=confirm,
            node_addresses=settings.spread.addresses,
            **plan_options_of(context_len, options),
        )
    if not plan.may_start:
        from ropewalk.report.plan import plan_page

        output.page(plan_page(plan))
        return 1
    with output.waiting("waiting for the server to answer") as wait:

        def fill(tokens: int, seconds: float | None) -> None:
            wait.expect(f"filling {tokens:,} tokens", seconds)
            if seconds is not None:
                _say(f"about {format_seconds(seconds)} for {tokens:,} tokens")

        service = core.start(plan, inspection, settings, say=_say, on_fill=fill)
    with service:
        _show(service, detached=detach)
        if has_error(service.findings):
            _say("stopping: it does not hold what was planned")
            return 1
        if detach:
            _say(f"running in the background, PID {service.detach().pid}")
            return 0
        _wait(service)
    _say("stopped")
    return 0


def _say(line: str) -> None:
    click.echo(printable(line), err=True)


def _show(service: Service, *, detached: bool) -> None:
    from ropewalk.report.serve import serve_page

    stop = f"ropewalk stop {service.server.launch.port}" if detached else "Ctrl-C"
    output.page(serve_page(service, stop=stop))


def _wait(service: Service) -> None:
    """Until Ctrl-C, which is how this command is meant to end; a server that dies is an error.

    On a terminal the lines below the page tell what it is doing.
    """
    screen = output.console()
    try:
        if screen.is_terminal:
            _follow(service, screen)
        while True:
            service.server.require_alive()
            time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        _say("\nstopping")


def _follow(service: Service, screen: Console) -> NoReturn:
    from rich.live import Live

    from ropewalk.report.live import live_page
    from ropewalk.report.terminal import Shown

    watch = core.watch(service.server)
    with Live(console=screen, auto_refresh=False, transient=True) as lines:
        while True:
            lines.update(Shown(live_page(service.plan, watch.look())), refresh=True)
            time.sleep(_LOOK_SECONDS)
