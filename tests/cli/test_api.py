"""``api``: the options become the service's settings; the token is shown only where it was made up."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Invoke

from ropewalk.api import server
from ropewalk.api.settings import ApiSettings

Ready = Callable[[str], None]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ApiSettings, int]]:
    """What the service would have been started with."""
    seen: list[tuple[ApiSettings, int]] = []

    def run(settings: ApiSettings, port: int, *, ready: Ready) -> None:
        seen.append((settings, port))
        ready("http://127.0.0.1:7673")

    monkeypatch.setattr(server, "run", run)
    monkeypatch.delenv("ROPEWALK_TOKEN", raising=False)
    return seen


def test_it_listens_on_this_machine_and_reads_nothing_unless_told(
    started: list[tuple[ApiSettings, int]], invoke: Invoke
) -> None:
    outcome = invoke("api")
    ((settings, port),) = started
    assert (outcome.status, outcome.out) == (0, "")
    assert (settings.host, port, settings.models_dirs, settings.hub) == ("127.0.0.1", 7673, (), False)
    lines = outcome.err.splitlines()
    assert lines[0].startswith("listening on http://127.0.0.1:7673, documentation at")
    assert lines[1] == f"token: {settings.token}"
    assert len(settings.token) == 32
    assert "give --models-dir DIR, or --hub" in lines[2]


def test_every_option(
    started: list[tuple[ApiSettings, int]], invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ROPEWALK_TOKEN", "a token of the operator")
    outcome = invoke(
        *("api", "--host", "0.0.0.0", "--port", "0", "--models-dir", str(tmp_path), "--hub"),
        *("--allow-host", "a.example", "--allow-host", "b.example", "--rate", "5", "--max-jobs", "2"),
        *("--max-servers", "3", "--no-resume", "--store", str(tmp_path / "runs.sqlite3")),
    )
    assert outcome.status == 0
    assert started == [
        (
            ApiSettings(
                token="a token of the operator",
                store=tmp_path / "runs.sqlite3",
                host="0.0.0.0",
                models_dirs=(tmp_path,),
                hub=True,
                names=("a.example", "b.example"),
                rate=5.0,
                max_jobs=2,
                max_servers=3,
                resume=False,
            ),
            0,
        )
    ]
    assert "operator" not in outcome.err
    assert "ROPEWALK_TOKEN" not in os.environ  # no engine inherits it


def test_a_token_that_is_too_short_and_a_folder_that_is_none(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ROPEWALK_TOKEN", "short")
    outcome = invoke("api", "--port", "0", "--store", str(tmp_path / "runs.sqlite3"))
    assert outcome.status == 2
    assert "at least 16 ASCII characters" in outcome.err
    assert invoke("api", "--models-dir", str(tmp_path / "nothing")).status == 2


def test_a_port_that_is_taken(invoke: Invoke, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = invoke("api", "--port", str(port), "--store", str(tmp_path / "runs.sqlite3"))
    assert outcome.status == 2
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in outcome.err


def test_a_missing_extra_is_named(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ropewalk.api.server", None)
    outcome = invoke("api")
    assert outcome.status == 2
    assert 'pip install "ropewalk[api]"' in outcome.err


def test_addresses_as_they_are_written() -> None:
    with server.listen("127.0.0.1", 0) as listener:
        assert server.address_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"
    if socket.has_ipv6:
        with server.listen("::1", 0) as listener:
            assert server.address_of(listener).startswith("http://[::1]:")


def test_the_command_itself_imports_no_web_stack() -> None:
    code = "import sys, ropewalk.cli.app, ropewalk.cli.api; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()).isdisjoint({"fastapi", "starlette", "uvicorn", "pydantic", "asyncio"})
