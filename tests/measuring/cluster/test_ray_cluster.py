"""What is asked of Ray and how its answers are read, with a stand-in; the slow suite has the real one."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ropewalk.errors import EngineError, EngineMissingError, UsageError
from ropewalk.measuring.cluster.backends import open_backend
from ropewalk.measuring.cluster.ray_cluster import RayBackend, run_on_ray
from ropewalk.measuring.cluster.settings import CampaignSettings, Needs


class RayError(Exception):
    """The base of Ray's errors."""


NAMES = ("WorkerCrashedError", "NodeDiedError", "ObjectLostError", "OutOfMemoryError", "RayTaskError")
ERRORS: dict[str, type[RayError]] = {name: type(name, (RayError,), {}) for name in NAMES}


class FakeRay:
    """One task after the other; ``answers`` are what they return or raise, ``deaf`` heed no soft cancel."""

    __version__ = "2.60.0"
    exceptions = SimpleNamespace(RayError=RayError, **ERRORS)

    def __init__(self, nodes: tuple[tuple[float, float], ...] = ((4, 0), (8, 2))) -> None:
        self.alive = [
            {"Alive": True, "Resources": {"CPU": cpu, **({"GPU": gpu} if gpu else {})}} for cpu, gpu in nodes
        ]
        self.answers: list[Any] = []
        self.options: list[dict[str, Any]] = []
        self.cancelled: list[tuple[int, bool]] = []
        self.deaf: set[int] = set()
        self.refuses: Exception | None = None
        self.is_gone = self.is_shut = False

    def is_initialized(self) -> bool:
        return False

    def init(self, **options: Any) -> None:
        self.options.append(options)
        if self.refuses:
            raise self.refuses

    def nodes(self) -> list[dict[str, Any]]:
        return [*self.alive, {"Alive": False, "Resources": {"CPU": 64.0}}]

    def remote(self, function: Callable[[str], str]) -> Any:
        assert function is run_on_ray
        return SimpleNamespace(options=self._options)

    def _options(self, **options: Any) -> Any:
        self.options.append(options)
        numbers = iter(range(100))
        return SimpleNamespace(remote=lambda text: next(numbers))

    def wait(self, references: list[int], *, num_returns: int, timeout: float) -> tuple[list[int], list[int]]:
        if self.is_gone:
            raise ConnectionError("GRPC connection failed")
        return [one for one in references if one not in self.deaf], [
            one for one in references if one in self.deaf
        ]

    def get(self, reference: int) -> str:
        answer = self.answers[reference]
        if isinstance(answer, Exception):
            raise answer
        text: str = answer
        return text

    def cancel(self, reference: int, *, force: bool = False) -> None:
        self.cancelled.append((reference, force))

    def shutdown(self) -> None:
        self.is_shut = True


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return fake


def test_without_the_extra_it_says_what_to_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EngineMissingError, match=r'pip install "ropewalk\[ray\]"'):
        open_backend(CampaignSettings("ray://auto"), folder=tmp_path)


def test_an_address_where_nobody_listens_is_known_before_ray_is_asked(ray: FakeRay, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(EngineError, match=f"no Ray cluster answers at 127.0.0.1:{port}") as raised:
        open_backend(CampaignSettings(f"ray://127.0.0.1:{port}"), folder=tmp_path)
    assert raised.value.code == "cluster_unreachable"
    assert ray.options == []


def test_the_address_in_the_environment_is_tried_too(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{server.getsockname()[1]}")
    with pytest.raises(EngineError, match="no Ray cluster answers"):
        RayBackend()


def test_an_address_is_given_to_ray_and_left_again(ray: FakeRay) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        RayBackend("127.0.0.1", server.getsockname()[1]) as backend,
    ):
        assert ray.options[0]["address"] == f"ray://127.0.0.1:{server.getsockname()[1]}"
        assert backend.describe() == "Ray, 2 nodes, 12 CPUs, 2 GPUs"
    assert ray.is_shut


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (ConnectionError("Could not find any running Ray instance."), "cluster_unreachable"),
        (RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.50.0\n    Python: 3.12.1"),
         "cluster_version_differs"),
        (RuntimeError("initialization failed"), "cluster_unreachable"),
    ],
)  # fmt: skip
def test_a_refusal_has_a_name(ray: FakeRay, refusal: Exception, code: str) -> None:
    ray.refuses = refusal
    with pytest.raises(EngineError) as raised:
        RayBackend()
    assert raised.value.code == code
    assert "\n" not in raised.value.message


@pytest.mark.parametrize("name", NAMES[:-1])
def test_a_lost_worker_or_node_is_lost(ray: FakeRay, name: str) -> None:
    ray.answers = [ERRORS[name]("The node died.\nMore about it.")]
    ended = run_one(ray)
    assert (ended.lost, ended.failed) == ("The node died.", None)


def test_an_exception_of_the_task_is_not_lost(ray: FakeRay) -> None:
    ray.answers = [ERRORS["RayTaskError"]("Traceback\nModuleNotFoundError: No module named 'ropewalk'")]
    ended = run_one(ray)
    assert (ended.key, ended.lost, ended.record) == ("a", None, None)
    assert (ended.failed or "").endswith("No module named 'ropewalk'")


def test_a_record_comes_back(ray: FakeRay) -> None:
    ray.answers = ["{}"]
    assert run_one(ray).record == "{}"
    assert ray.options[1] == {"num_cpus": 1, "num_gpus": 0, "max_retries": 0, "name": "ropewalk"}


def test_a_cluster_that_goes_away_ends_the_campaign(ray: FakeRay) -> None:
    with RayBackend() as backend:
        backend.submit({"a": "{}"}, Needs())
        ray.is_gone = True
        with pytest.raises(EngineError, match="the Ray cluster is gone"):
            backend.next()
    assert ray.cancelled == []


def test_a_whole_node_is_all_cores_of_the_largest(ray: FakeRay) -> None:
    with RayBackend() as backend:
        backend.submit({"a": "{}"}, Needs(gpus=1, whole_node=True))
        assert (ray.options[1]["num_cpus"], ray.options[1]["num_gpus"]) == (8, 1)


@pytest.mark.parametrize("needs", [Needs(cpus=9), Needs(gpus=3), Needs(cpus=9, gpus=1)])
def test_what_no_living_node_has_is_not_waited_for(ray: FakeRay, needs: Needs) -> None:
    with RayBackend() as backend, pytest.raises(UsageError, match="no node of the cluster has"):
        backend.submit({"a": "{}"}, needs)


def test_leaving_interrupts_what_runs_and_kills_what_does_not_heed_it(ray: FakeRay) -> None:
    ray.deaf = {1}
    with RayBackend() as backend:
        backend.submit({"a": "{}", "b": "{}"}, Needs())
    assert ray.cancelled == [(0, False), (1, False), (1, True)]


def test_the_servers_own_reason_is_quoted(ray: FakeRay) -> None:
    ray.refuses = RuntimeError("Initialization failure from server:\nTraceback\nRuntimeError: Proxy failed")
    with pytest.raises(EngineError, match=r"failure from server: RuntimeError: Proxy failed$"):
        RayBackend()


def run_one(ray: FakeRay) -> Any:
    with RayBackend() as backend:
        backend.submit({"a": "{}"}, Needs())
        return backend.next()
