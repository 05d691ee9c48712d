"""``ropewalk web``: the application of ``ropewalk tui`` in a browser."""

from __future__ import annotations

from importlib.util import find_spec

import click

from ropewalk.cli.command import Command, option
from ropewalk.errors import UsageError


@click.command(
    "web",
    cls=Command,
    examples="""
        ropewalk web
        ropewalk web ./Qwen3-8B --port 9000
    """,
)
@click.argument("checkpoint", required=False)
@option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@option("--port", type=click.IntRange(1, 65535), default=8001, show_default=True, metavar="P")
@option("--public-url", metavar="URL", help="Where the page is reached from outside, behind a proxy say.")
def command(checkpoint: str | None, host: str, port: int, public_url: str | None) -> None:
    """Serve the application to a browser until Ctrl-C; every page is a session of its own.

    Open the address that it prints: the token in it is new at each start. Who has that address can read files
    and start servers as you. A page that is closed ends its session and what that started.
    """
    if find_spec("textual_serve") is None:
        raise UsageError('`ropewalk web` needs an extra: pip install "ropewalk[web]"')
    from ropewalk.tui.web import serve

    try:
        serve(checkpoint, host=host, port=port, public_url=public_url)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another with --port",
            code="port_in_use",
            where={"host": host, "port": port},
        ) from error
