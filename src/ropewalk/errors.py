"""Every error that ropewalk raises on purpose, and what it means at each door.

    RopewalkError
    ├── UsageError             the request makes no sense                exit 2
    │   ├── RunActiveError           the run is being measured
    │   └── NegativePlanError        what was planned must not be started  exit 1
    ├── CheckpointError        the checkpoint cannot be read             exit 3
    │   ├── CheckpointMissingError   nothing is there
    │   └── HubError                 the Hub refused or did not answer
    ├── EngineError            the engine failed                         exit 4
    │   ├── EngineMissingError       none is installed
    │   ├── EngineFailedError        it died; carries its own last words
    │   └── EngineTimeoutError       it did not answer in time
    └── RunStoreError          runs cannot be read or written            exit 2
        └── RunMissingError          no run has that name

"Does not fit" and "the config disagrees with the tensors" are results, not errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class RopewalkError(Exception):
    """Base of all our errors.

    ``code`` is a stable name (see the outer contract), ``where`` names the file, field, tensor or
    flag and the values that disagree; both travel unchanged into JSON, HTTP and dialogs.
    """

    exit_status = 4
    http_status = 500
    default_code = "error"

    def __init__(
        self, message: str, *, code: str | None = None, where: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.where: dict[str, Any] = dict(where or {})

    def __str__(self) -> str:
        return self.message

    def record(self) -> dict[str, Any]:
        """The error as ``ropewalk.error/1``."""
        return {
            "schema": "ropewalk.error/1",
            "code": self.code,
            "message": self.message,
            "where": self.where,
        }


class UsageError(RopewalkError):
    """The request is wrong: a size that is no size, options that exclude each other."""

    exit_status = 2
    http_status = 422
    default_code = "usage"


class RunActiveError(UsageError):
    """The run is being measured; it cannot be gone on with, or deleted, at the same time."""

    http_status = 409
    default_code = "run_active"


class NegativePlanError(UsageError):
    """The verdict of a plan is negative, so nothing is started or emitted; ``code`` is that of its reason."""

    exit_status = 1


class CheckpointError(RopewalkError):
    """The checkpoint cannot be read; ``where['file']`` names the file."""

    exit_status = 3
    http_status = 422
    default_code = "checkpoint_unreadable"


class CheckpointMissingError(CheckpointError):
    """There is nothing at the path, or nothing that is a checkpoint."""

    http_status = 404
    default_code = "checkpoint_missing"


class HubError(CheckpointError):
    """The Hub refused the repository or did not answer."""

    http_status = 502
    default_code = "hub_error"


class EngineError(RopewalkError):
    """The engine failed, or cannot do what was asked of it."""

    exit_status = 4
    http_status = 502
    default_code = "engine_error"


class EngineMissingError(EngineError):
    """No engine of that name is installed."""

    http_status = 503
    default_code = "engine_missing"


class EngineFailedError(EngineError):
    """The engine ended; ``where['log']`` is its log, the message quotes its own last error line."""

    default_code = "engine_failed"


class EngineTimeoutError(EngineError):
    """The engine did not become ready, answer or stop in time."""

    http_status = 504
    default_code = "engine_timeout"


class RunStoreError(RopewalkError):
    """The store of runs cannot be read or written."""

    exit_status = 2
    http_status = 503  # nothing that a client got wrong
    default_code = "run_store"


class RunMissingError(RunStoreError):
    """No run is stored under this name."""

    http_status = 404
    default_code = "run_not_found"
