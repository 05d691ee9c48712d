"""llama.cpp's RPC servers: other machines whose memory and processors one llama-server uses.

llama.cpp b11434, ``tools/rpc/README.md``: "proof-of-concept", "fragile and insecure. Never run the RPC server
on an open network".
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence

from ropewalk.errors import UsageError
from ropewalk.findings import Finding

_PRINTED = re.compile(r"^RPC\d+\[(.+)\]$")  # the device's number on its server, ggml-rpc.cpp:1094


def endpoint(server: str) -> tuple[str, int]:
    """Host and port of ``host:port``. Raises :class:`UsageError`."""
    host, _, port = server.partition(":")  # no IPv6: parse_endpoint, ggml-rpc.cpp:293
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise UsageError(f"{server!r} is no address of an RPC server: HOST:PORT", where={"flag": "--rpc"})
    return host, int(port)


def server_of(device: str) -> str | None:
    """The server behind a device as the engine prints it, ``RPC0[10.0.0.2:50052]``; None for another."""
    match = _PRINTED.match(device)
    return match[1] if match else None


def findings(servers: Sequence[str]) -> tuple[Finding, ...]:
    """Upstream's warning; an error for a server at a public address."""
    return tuple(_findings(servers))


def _findings(servers: Sequence[str]) -> Iterator[Finding]:
    public = [server for server in servers if _is_public(endpoint(server)[0])]
    if public:
        yield Finding(
            "rpc_public",
            "error",
            f"{', '.join(public)} is a public address: an RPC server has no password and no encryption, and "
            "who reaches it can take over its machine; tunnel it (ssh -L) and give the tunnel's end",
            {"flag": "--rpc", "servers": public},
        )
    elif servers:
        yield Finding(
            "rpc_insecure",
            "warning",
            "llama.cpp calls its RPC fragile and insecure: weights and prompts travel unencrypted, "
            "and whoever reaches a server can use it; only in a network that you trust",
            {"flag": "--rpc", "servers": list(servers)},
        )


def _is_public(host: str) -> bool:
    """A name is taken for one of the user's own network."""
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return False
