"""What the operator of the service decides."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from ropewalk.errors import UsageError

DEFAULT_PORT = 7673  # "rope" on the keys of a telephone
MIN_TOKEN_LEN = 16


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """``models_dirs`` are the only folders of this machine that are read; ``hub`` allows Hub ids as well.

    ``token`` is what a client has to show, ``names`` the host names beside ``localhost`` and plain addresses
    under which the service may be asked. ``rate`` is in requests per second and client. ``max_jobs`` bounds
    the measurements at a time, ``max_servers`` the servers, those included that were left running before.
    ``resume`` is whether to go on with what an earlier service with this store was measuring when it ended.
    """

    token: str = field(repr=False)
    store: Path
    host: str = "127.0.0.1"
    models_dirs: tuple[Path, ...] = ()
    hub: bool = False
    names: tuple[str, ...] = ()
    rate: float = 500.0
    max_jobs: int = 1
    max_servers: int = 2
    resume: bool = True

    def checked(self) -> ApiSettings:
        """The same, if it can be served by. Raises :class:`UsageError`."""
        if len(self.token) < MIN_TOKEN_LEN or not self.token.isascii():
            raise UsageError(
                f"the token must have at least {MIN_TOKEN_LEN} ASCII characters", where={"field": "token"}
            )
        for folder in self.models_dirs:
            if not folder.is_dir():
                raise UsageError(
                    f"{folder} is no folder", where={"flag": "--models-dir", "value": str(folder)}
                )
        return self

    @property
    def is_private(self) -> bool:
        """Whether only this machine can ask: then reading needs no token.

        A further name means that something in front passes on what others ask.
        """
        return is_loopback(self.host) and not self.names


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
