"""``ropewalk api``: the HTTP service."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import click

from ropewalk import core
from ropewalk.cli.command import Command, option
from ropewalk.cli.params import COUNT
from ropewalk.cli.runs import store_option
from ropewalk.errors import UsageError

_SOURCES, _BOUNDS = "What may be read", "Bounds"


@click.command(
    "api",
    cls=Command,
    examples="""
        ropewalk api --models-dir ~/models
        ropewalk api --models-dir /srv/models --hub --port 8080
        ROPEWALK_TOKEN=$(cat token) ropewalk api --host 0.0.0.0 --models-dir /srv/models
    """,
)
@option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="P",
    default=7673,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="A further name in the Host header, of a proxy in front; may be repeated.",
)
@option(
    "--models-dir",
    "models_dirs",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    group=_SOURCES,
    help="A folder that clients may read from; may be repeated.",
)
@option("--hub/--no-hub", default=False, group=_SOURCES, help="Whether Hub ids may be named.")
@option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    default=500.0,
    show_default=True,
    group=_BOUNDS,
    help="Requests per second of one client.",
)
@option(
    "--max-jobs",
    type=COUNT,
    metavar="N",
    default=1,
    show_default=True,
    group=_BOUNDS,
    help="Measurements at a time.",
)
@option(
    "--max-servers",
    type=COUNT,
    metavar="N",
    default=2,
    show_default=True,
    group=_BOUNDS,
    help="Servers at a time.",
)
@option(
    "--resume/--no-resume",
    default=True,
    show_default=True,
    group=_BOUNDS,
    help="Whether to go on with measurements that were under way when the service ended.",
)
@store_option
def command(
    host: str,
    port: int,
    names: tuple[str, ...],
    models_dirs: tuple[Path, ...],
    hub: bool,
    rate: float,
    max_jobs: int,
    max_servers: int,
    resume: bool,
    store: Path | None,
) -> None:
    """Serve the records over HTTP; its documentation is at /docs.

    Starting and stopping needs the token in ROPEWALK_TOKEN, or the one that is made up and shown here. On
    another than a loopback address, or with --allow-host, reading needs it too. Nothing is encrypted: put a
    proxy with TLS in front where that matters.
    """
    try:
        from ropewalk.api.server import run
        from ropewalk.api.settings import ApiSettings
    except ImportError as error:
        raise UsageError(
            f'the HTTP service needs more than is installed ({error.name}): pip install "ropewalk[api]"',
            code="extra_missing",
            where={"extra": "api", "module": error.name},
        ) from error
    given = os.environ.pop("ROPEWALK_TOKEN", None)  # none of the engines' business
    settings = ApiSettings(
        token=given or secrets.token_urlsafe(24),
        store=(store or core.default_store_path()).absolute(),
        host=host,
        models_dirs=models_dirs,
        hub=hub,
        names=names,
        rate=rate,
        max_jobs=max_jobs,
        max_servers=max_servers,
        resume=resume,
    )

    def ready(address: str) -> None:
        click.echo(f"listening on {address}, documentation at {address}/docs; Ctrl-C ends it", err=True)
        if not given:
            click.echo(f"token: {settings.token}", err=True)
        if not (models_dirs or hub):
            click.echo("no checkpoint can be named: give --models-dir DIR, or --hub", err=True)

    run(settings, port, ready=ready)
    click.echo("stopped", err=True)
