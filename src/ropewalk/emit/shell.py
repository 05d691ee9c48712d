"""A shell script: one command, or a part for each machine of a group; and the pieces that others reuse."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from textwrap import indent

from ropewalk.emit.header import header, holds
from ropewalk.emit.server import EmittedServer

_STEP = "  "
_PROLOGUE = """\
if [ "$#" -lt 2 ] || [ "$#" -gt 3 ]; then
  echo "usage: sh $0 NODE HEAD_ADDRESS [OWN_ADDRESS]" >&2
  exit 2
fi
node=$1
head=$2
if [ "$#" -eq 3 ]; then
  export VLLM_HOST_IP="$3"
fi
"""


def script(server: EmittedServer) -> str:
    """A POSIX script. For a group it is started on each machine with that one's number."""
    if server.num_nodes == 1:
        notes = _rpc_notes(server.plan.request.rpc_servers)
        return f"#!/bin/sh\n{header(server, *notes)}set -eu\n\n{command(server, 'exec')}"
    notes = [
        "On each machine: sh THIS_FILE NODE HEAD_ADDRESS [OWN_ADDRESS], node 0 being the one at HEAD_ADDRESS",
        "that answers. Where one ends, end the others: vLLM's do not all notice, and its status may be 0.",
    ]
    nodes = "".join(_node(server, node) for node in range(server.num_nodes))
    other = f'*) echo "$0: the nodes are 0 to {server.num_nodes - 1}" >&2; exit 2 ;;\n'
    return (
        f"#!/bin/sh\n{header(server, *notes)}set -eu\n\n{_PROLOGUE}\n{function(server)}\n"
        f'case "$node" in\n{indent(nodes + other, _STEP)}esac\n'
    )


def command(server: EmittedServer, *before: str, program: str | None = None, after: str = "") -> str:
    """The server's command, one flag a line; ``after`` is shell text behind it."""
    settings = [f"{name}={shlex.quote(value)}" for name, value in server.env.items()]
    words = [*before, *(["env", *settings] if settings else []), program or server.engine]
    lines = [*flag_lines([*words, *map(shlex.quote, server.argv)]), *([after] if after else [])]
    return f" \\\n{_STEP}".join(lines) + "\n"


def function(server: EmittedServer) -> str:
    """``serve``: the command of every machine, what tells them apart being its arguments."""
    return "serve() {\n" + indent(command(server, "exec", after='"$@"'), _STEP) + "}\n"


def of_head_or_other(server: EmittedServer, *, node: str, head: str) -> str:
    """Calls ``serve`` as node 0 or another one; both are shell variables."""
    first = " ".join(server.of_node(0, head=f'"${head}"'))
    other = " ".join(server.of_node(f'"${node}"', head=f'"${head}"'))
    return f'if [ "${node}" -eq 0 ]; then\n{_STEP}serve {first}\nelse\n{_STEP}serve {other}\nfi\n'


def _node(server: EmittedServer, node: int) -> str:
    what = holds(server.plan, node)
    flags = " ".join(server.of_node(node, head='"$head"'))
    return f"# node {node}{f': {what}' if what else ''}\n{node}) serve {flags} ;;\n"


def flag_lines(words: Iterable[str]) -> Iterator[str]:
    """Words joined, a new line before each flag."""
    line: list[str] = []
    for word in words:
        if word.startswith("-") and line:
            yield " ".join(line)
            line = []
        line.append(word)
    yield " ".join(line)


def _rpc_notes(servers: Sequence[str]) -> list[str]:
    return (
        [f"Before: ggml-rpc-server on {', '.join(servers)}, which print what they offer."] if servers else []
    )
