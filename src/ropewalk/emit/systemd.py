"""A unit of systemd's user manager: the planned command, started anew where it fails."""

from __future__ import annotations

import re
from pathlib import PurePath

from ropewalk.emit.header import header
from ropewalk.emit.server import EmittedServer, require_no_rpc, require_one_machine, require_writable
from ropewalk.emit.shell import flag_lines
from ropewalk.errors import UsageError

_PLAIN = re.compile(r"[A-Za-z0-9_@:,./=+-]+")
# The unit has started once the server answers; until then TimeoutStartSec runs.
_UNIT = """\
[Unit]
Description={name}: {engine} on port {port}

[Service]
Type=exec
Environment=PATH=%h/.local/bin:/usr/local/bin:/usr/bin:/bin
{environment}EnvironmentFile=-%E/{name}.env
ExecStart={command}
ExecStartPost=/usr/bin/env curl --silent --fail --output /dev/null --retry {seconds} --retry-delay 1 \
--retry-all-errors http://127.0.0.1:{port}/health
TimeoutStartSec={seconds}
Restart=on-failure
RestartSec=10
NoNewPrivileges=yes
LockPersonality=yes
RestrictSUIDSGID=yes
UMask=0077

[Install]
WantedBy=default.target
"""


def unit(server: EmittedServer) -> str:
    """Text for ``~/.config/systemd/user``.

    Raises :class:`UsageError` for several machines, RPC servers, a relative path of the model (a unit
    starts in the home folder) and control characters.
    """
    require_one_machine(server, "systemd")
    require_no_rpc(server, "systemd")
    require_writable((*server.argv, *server.env.values()), "systemd")
    if server.hub is None and not PurePath(server.model).is_absolute():
        raise UsageError(
            f"a systemd unit starts in the home folder: plan for the absolute path of {server.model}",
            where={"kind": "systemd", "checkpoint": server.model},
        )
    settings = [f"Environment={_quoted(f'{name}={value}')}\n" for name, value in server.env.items()]
    words = ["/usr/bin/env", server.engine, *(_quoted(word).replace("$", "$$") for word in server.argv)]
    text = _UNIT.format(
        name=server.name,
        engine=server.engine,
        port=server.port,
        environment="".join(settings),
        command=" \\\n  ".join(flag_lines(words)),
        seconds=server.ready_seconds,
    )
    return header(server, *_notes(server)) + text


def _notes(server: EmittedServer) -> tuple[str, ...]:
    secrets = " and ".join([server.published.key, *(["HF_TOKEN"] if server.hub else [])])
    return (
        f"As ~/.config/systemd/user/{server.name}.service; systemctl --user enable --now {server.name}",
        f"{secrets}: in ~/.config/{server.name}.env. PATH is where {server.engine} and curl are looked for.",
    )


def _quoted(word: str) -> str:
    """A word by systemd.syntax(7), with nothing in it for systemd.unit(5) to replace."""
    if not _PLAIN.fullmatch(word):
        word = '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return word.replace("%", "%%")
