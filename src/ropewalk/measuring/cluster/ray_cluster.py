"""Tasks on a Ray cluster: placed by Ray, once each; what is lost is handed out again by the campaign."""

from __future__ import annotations

import logging
import os
import socket
import warnings
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from ropewalk.errors import EngineError, UsageError
from ropewalk.measuring.cluster.backend import Ended, missing_extra
from ropewalk.measuring.cluster.settings import Needs

_CONNECT_SECONDS = 5.0
_WAIT_SECONDS = 1.0
_CANCEL_SECONDS = 10.0  # for a task to stop its server; then its worker is killed, and the supervisor does it


def run_on_ray(text: str) -> str:
    """A task as a worker runs it: the node by the address that Ray knows it under."""
    import ray

    from ropewalk.measuring.cluster.node import run_task

    return run_task(text, address=ray.util.get_node_ip_address())


class RayBackend:
    """A cluster at ``ray://host:port``, or without a host the one that this machine is part of.

    Raises :class:`EngineMissingError` without the extra ``ray``, and :class:`EngineError` where nobody
    listens (``cluster_unreachable``) or Ray or Python is another there (``cluster_version_differs``).
    """

    def __init__(self, host: str | None = None, port: int | None = None) -> None:
        try:
            import ray
        except ModuleNotFoundError as error:
            raise missing_extra("ray", "ray") from error
        self._ray = ray
        self._address = "auto" if host is None else f"ray://{host}:{port}"
        self._is_ours = not ray.is_initialized()
        self._keys: dict[Any, str] = {}
        if self._is_ours:
            _require_reachable(host, port)
            self._connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._cancel()
        finally:
            if self._is_ours:
                self._ray.shutdown()

    def describe(self) -> str:
        """The machines there are, in words."""
        nodes = self._nodes()
        cpus, gpus = (sum(node.get(kind, 0) for node in nodes) for kind in ("CPU", "GPU"))
        return f"Ray, {len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}, {cpus:g} CPUs, {gpus:g} GPUs"

    def submit(self, tasks: Mapping[str, str], needs: Needs) -> None:
        """Hand out tasks; Ray places them."""
        options = self._options(needs)
        remote = self._ray.remote(run_on_ray).options(**options)
        for key, text in tasks.items():
            self._keys[remote.remote(text)] = key

    def next(self) -> Ended:
        """Wait for the end of a task."""
        try:
            ready: list[Any] = []
            while not ready:
                ready, _ = self._ray.wait(list(self._keys), num_returns=1, timeout=_WAIT_SECONDS)
            return self._ended(ready[0])
        except ConnectionError as error:
            self._keys.clear()  # nobody is left to cancel them with
            raise EngineError(
                f"the Ray cluster is gone: {error}",
                code="cluster_unreachable",
                where={"address": self._address},
            ) from error

    def _ended(self, reference: Any) -> Ended:
        key = self._keys.pop(reference)
        errors = self._ray.exceptions
        lost = (
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
        )
        try:
            return Ended(key, record=self._ray.get(reference))
        except lost as error:
            return Ended(key, lost=_first_line(error))
        except errors.RayError as error:
            return Ended(key, failed=str(error))

    def _options(self, needs: Needs) -> dict[str, Any]:
        """Ray's own retries are off: they would not tell apart what is worth one."""
        nodes = self._nodes()
        cpus = max(node.get("CPU", 0) for node in nodes) if needs.whole_node and nodes else needs.cpus
        if not any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= needs.gpus for node in nodes):
            raise UsageError(
                f"no node of the cluster has {cpus:g} CPUs and {needs.gpus} GPUs",
                code="cluster_too_small",
                where={"cpus": cpus, "gpus": needs.gpus, "nodes": nodes},
            )
        return {"num_cpus": cpus, "num_gpus": needs.gpus, "max_retries": 0, "name": "ropewalk"}

    def _nodes(self) -> list[dict[str, float]]:
        """What each living node has."""
        return [
            {kind: node["Resources"].get(kind, 0) for kind in ("CPU", "GPU")}
            for node in self._ray.nodes()
            if node["Alive"]
        ]

    def _connect(self) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what is wrong is said below, once
                self._ray.init(address=self._address, log_to_driver=False, logging_level=logging.ERROR)
        except ConnectionError as error:
            raise _unreachable(self._address, _ends_of(error)) from error
        except RuntimeError as error:
            if "ersion mismatch" not in str(error):
                raise _unreachable(self._address, _ends_of(error)) from error
            raise EngineError(
                f"Ray and Python must be the same here and on the cluster: {' '.join(str(error).split())}",
                code="cluster_version_differs",
                where={"address": self._address, "ray": self._ray.__version__},
            ) from error

    def _cancel(self) -> None:
        """Interrupt what still runs; what does not heed that in time loses its worker."""
        left = list(self._keys)
        for reference in left:
            self._ray.cancel(reference)
        if left:
            _, left = self._ray.wait(left, num_returns=len(left), timeout=_CANCEL_SECONDS)
        for reference in left:
            self._ray.cancel(reference, force=True)


def _require_reachable(host: str | None, port: int | None) -> None:
    """Ray waits for minutes for a cluster that is not there."""
    if host is None:
        host, _, text = os.environ.get("RAY_ADDRESS", "").removeprefix("ray://").rpartition(":")
        port = int(text) if text.isdecimal() else None
    if not host or port is None:
        return  # ray.init("auto") finds a cluster of this machine, or says at once that there is none
    try:
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise _unreachable(f"{host}:{port}", error.strerror or str(error)) from error


def _unreachable(address: str, why: str) -> EngineError:
    return EngineError(
        f"no Ray cluster answers at {address}: {why}",
        code="cluster_unreachable",
        where={"address": address, "hint": "ray:// takes the port of Ray's client server, 10001 by default"},
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _ends_of(error: BaseException) -> str:
    """The first line, and the last one where a traceback of the server lies between."""
    return " ".join(dict.fromkeys((_first_line(error), (str(error).strip().splitlines() or [""])[-1])))
