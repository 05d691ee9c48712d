"""What a campaign needs of whoever runs its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from ropewalk.errors import EngineMissingError
from ropewalk.measuring.cluster.settings import Needs


@dataclass(frozen=True, slots=True)
class Ended:
    """A task that is over: its ``record``, or how it was ``lost`` with its worker or node, or how it
    ``failed`` before it could give one, which another attempt would not mend."""

    key: str
    record: str | None = None
    lost: str | None = None
    failed: str | None = None


class Backend(Protocol):
    """Runs texts through :func:`ropewalk.measuring.cluster.node.run_task`; leaving it cancels what is
    left."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def describe(self) -> str:
        """The machines there are, in words."""

    def submit(self, tasks: Mapping[str, str], needs: Needs) -> None:
        """Hand out tasks by their keys. Raises :class:`UsageError` where no machine has what they need."""

    def next(self) -> Ended:
        """Wait until one of the tasks is over. Raises :class:`EngineError` where the cluster is gone."""


def missing_extra(module: str, extra: str) -> EngineMissingError:
    """The error for a scheduler's library that is not installed."""
    return EngineMissingError(
        f'measuring on {extra} needs its extra: pip install "ropewalk[{extra}]"',
        code="extra_missing",
        where={"module": module},
    )
