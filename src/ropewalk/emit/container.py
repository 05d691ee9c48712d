"""One container on this kind of machine: a ``docker run`` script, and the same as a Compose file."""

from __future__ import annotations

import shlex
from typing import Any

from ropewalk.emit.header import header
from ropewalk.emit.server import (
    EmittedServer,
    require_no_rpc,
    require_one_machine,
    require_published,
    require_writable,
)
from ropewalk.emit.shell import flag_lines
from ropewalk.emit.yamltext import yaml_text

_MODELS = "/models"
_VOLUME, _CACHE = "huggingface", "/cache/huggingface"
_LOOPBACK = "127.0.0.1"


def script(server: EmittedServer) -> str:
    """A POSIX script with one ``docker run``, for Docker 23 or later.

    Raises :class:`UsageError` without a released version, for several machines and for RPC servers, and
    for a path with control characters.
    """
    server, image = _contained(server, "docker")
    options = [
        "--rm",
        f"--name {server.name}",
        *([f"--gpus {server.gpus}"] if server.gpus else []),
        *(["--ipc=host"] if server.published.shares_memory else []),
        "--security-opt no-new-privileges",
        f"--publish {_LOOPBACK}:{server.port}:{server.port}",
        f"--mount {shlex.quote(_mount(server))}",
        *(f"--env {shlex.quote(f'{name}={value}')}" for name, value in _env(server).items()),
        *(f"--env {name}" for name in _passed(server)),
        f"--entrypoint {server.published.program}",
    ]
    run = " \\\n  ".join(["exec docker run", *options, ""])
    top = header(server, *_notes(server, "sh THIS_FILE"))
    return f"#!/bin/sh\n{top}set -eu\n\n{run}{_arguments(server, image)}"


def compose(server: EmittedServer) -> str:
    """YAML for ``docker compose up``, by the Compose specification. Raises as :func:`script` does."""
    server, image = _contained(server, "compose")
    service: dict[str, Any] = {
        "image": image,
        "entrypoint": [server.published.program],
        "command": list(server.argv),
        "environment": {**_env(server), **dict.fromkeys(_passed(server))},
        "ports": [f"{_LOOPBACK}:{server.port}:{server.port}"],
        "volumes": [_volume(server)],
        **({"ipc": "host"} if server.published.shares_memory else {}),
        "security_opt": ["no-new-privileges:true"],
        "healthcheck": _healthcheck(server),
        "restart": "unless-stopped",
        **({"deploy": _devices(server.gpus)} if server.gpus else {}),
    }
    data = {"name": server.name, "services": {server.engine: _literal(service)}}
    volumes: dict[str, Any] = {"volumes": {_VOLUME: {}}} if server.hub else {}
    return header(server, *_notes(server, "docker compose -f THIS_FILE up -d --wait")) + yaml_text(
        {**data, **volumes}
    )


def _contained(server: EmittedServer, kind: str) -> tuple[EmittedServer, str]:
    """The server as it is inside, and its image."""
    require_one_machine(server, kind)
    require_no_rpc(server, kind)
    image = server.published.image(require_published(server), gpu=server.gpus > 0)
    if server.hub is None:
        require_writable((server.plan.checkpoint,), kind)
    return server.reachable().moved(_MODELS), image


def _notes(server: EmittedServer, start: str) -> tuple[str, ...]:
    names = " and ".join(_passed(server))
    return (
        f"{start}; it answers on {_LOOPBACK}:{server.port} alone.",
        f"{names}: passed on where set, and not written here.",
    )


def _env(server: EmittedServer) -> dict[str, str]:
    return {**server.env, **({"HF_HOME": _CACHE} if server.hub else {})}


def _passed(server: EmittedServer) -> tuple[str, ...]:
    """Secrets, by name."""
    return (server.published.key, *(("HF_TOKEN",) if server.hub else ()))


def _mount(server: EmittedServer) -> str:
    """The value of ``--mount``, a line of CSV."""
    if server.hub:
        return f"type=volume,source={_VOLUME},target={_CACHE}"
    source, target = _paths(server)
    return f"type=bind,{_field(f'source={source}')},{_field(f'target={target}')},readonly"


def _field(text: str) -> str:
    quoted = text.replace('"', '""')
    return f'"{quoted}"' if "," in text or '"' in text else text


def _volume(server: EmittedServer) -> dict[str, Any]:
    if server.hub:
        return {"type": "volume", "source": _VOLUME, "target": _CACHE}
    source, target = _paths(server)
    bind = {"create_host_path": False}  # a mistaken path would else be made, as root's
    return {"type": "bind", "source": source, "target": target, "read_only": True, "bind": bind}


def _paths(server: EmittedServer) -> tuple[str, str]:
    """Here and inside. Docker takes a word without ``/`` in front or ``./`` for a volume's name."""
    source, target = server.files(_MODELS)
    return (source if source.startswith("/") else f"./{source}"), target


def _arguments(server: EmittedServer, image: str) -> str:
    """The image and what its program is given, one flag a line."""
    return " \\\n  ".join(flag_lines([image, *map(shlex.quote, server.argv)])) + "\n"


def _healthcheck(server: EmittedServer) -> dict[str, Any]:
    """The engine's own answer, asked with what its image has for certain."""
    url = f"http://{_LOOPBACK}:{server.port}/health"
    return {
        "test": ["CMD", *(word.format(url=url) for word in server.published.ask)],
        "interval": "10s",
        "timeout": "10s",
        "retries": 3,
        "start_period": f"{server.ready_seconds}s",
    }


def _devices(gpus: int) -> dict[str, Any]:
    device = {"driver": "nvidia", "count": gpus, "capabilities": ["gpu"]}
    return {"resources": {"reservations": {"devices": [device]}}}


def _literal(data: Any) -> Any:
    """The data with nothing in it that Compose replaces: it would read ``$NAME``."""
    if isinstance(data, dict):
        return {name: _literal(value) for name, value in data.items()}
    if isinstance(data, list):
        return [_literal(value) for value in data]
    return data.replace("$", "$$") if isinstance(data, str) else data
