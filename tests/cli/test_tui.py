"""``tui`` and ``web``: what they need, and that they are not loaded for anything else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Invoke

from ropewalk.cli import web
from ropewalk.tui import app as app_module


def test_the_application_needs_a_terminal(invoke: Invoke) -> None:
    outcome = invoke("tui", "models/Qwen3-8B")
    assert outcome.status == 2
    assert "`ropewalk web` serves the same in a browser" in outcome.err


def test_in_a_browser_it_starts_with_what_was_named(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[dict[str, Any]] = []

    class FakeApp:
        crash = None

        def __init__(self, source: str | None, **options: Any) -> None:
            made.append({"source": source, **options})

        def run(self) -> None:
            made[-1]["ran"] = True

    monkeypatch.setattr(app_module, "RopewalkApp", FakeApp)
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.web_driver:WebDriver")
    assert invoke("tui", "models/Qwen3-8B", "--light", "--store", str(tmp_path / "runs")).status == 0
    assert made[0]["source"] == "models/Qwen3-8B"
    assert made[0]["light"] is True
    assert made[0]["ran"]


def test_a_crash_is_one_line_that_names_the_log(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class FakeApp:
        crash = ZeroDivisionError("integer division\nby zero")

        def __init__(self, source: str | None, **options: Any) -> None:
            pass

        def run(self) -> None:
            pass

    monkeypatch.setattr(app_module, "RopewalkApp", FakeApp)
    monkeypatch.setattr("platformdirs.user_log_path", lambda name: tmp_path)
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.web_driver:WebDriver")
    outcome = invoke("tui", "models/Qwen3-8B")
    (log,) = tmp_path.glob("tui-*.log")
    assert outcome.status == 4
    said, *rest = outcome.err.splitlines()
    assert rest == []
    assert said.endswith(
        f"ended by a bug in ropewalk (ZeroDivisionError: integer division); the log is {log}"
    )
    monkeypatch.setattr("platformdirs.user_log_path", lambda name: log)  # a file: no folder can be there
    assert "its log cannot be written: File exists" in invoke("tui", "models/Qwen3-8B").err


def test_web_says_which_extra_it_needs(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "find_spec", lambda name: None)
    outcome = invoke("web")
    assert outcome.status == 2
    assert 'pip install "ropewalk[web]"' in outcome.err


def test_web_on_a_port_that_is_taken_says_what_to_do(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(checkpoint: str | None, **options: Any) -> None:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr("ropewalk.tui.web.serve", serve)
    outcome = invoke("web", "--port", "8001")
    assert outcome.status == 2
    assert "cannot listen on 127.0.0.1 port 8001: Address already in use; choose another" in outcome.err


def test_no_other_command_loads_textual() -> None:
    code = (
        "import sys, ropewalk.cli.app as app; app.run(['inspect', '--help']); print('textual' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
