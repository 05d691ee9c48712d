"""The whole way in a real terminal: open SmolLM2, plan, serve, measure a small grid, stop, quit."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ropewalk.measuring.store import RunStore

pytestmark = [pytest.mark.slow, pytest.mark.engine]
PATIENCE_SECONDS = 600.0
_UNSET = ("-u", "COLUMNS", "-u", "LINES")  # readline, which pytest imports, leaves them in the environment


class Tmux:
    """A terminal of 120 x 40 in which one command runs."""

    def __init__(self, folder: Path, command: list[str], environment: dict[str, str]) -> None:
        self._socket = str(folder / "tmux")
        words = [f"{name}={value}" for name, value in environment.items()]
        self._run(
            "new-session", "-d", "-x", "120", "-y", "40", shlex.join(["env", *_UNSET, *words, *command])
        )

    def _run(self, *arguments: str) -> str:
        argv = ["tmux", "-S", self._socket, "-f", "/dev/null", *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30).stdout

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        for key in keys:
            self._run("send-keys", key)

    def screen(self) -> str:
        """What the terminal shows."""
        return self._run("capture-pane", "-p")

    def wait_for(self, text: str, *, gone: bool = False) -> str:
        """Wait until the terminal shows this, or no longer."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (text in (shown := self.screen())) == gone:
            assert time.monotonic() < deadline, f"{text!r} never {'went' if gone else 'came'}:\n{shown}"
            time.sleep(0.2)
        return shown

    def is_alive(self) -> bool:
        """Whether the command still runs."""
        try:
            return bool(self._run("list-sessions"))
        except subprocess.CalledProcessError:
            return False

    def close(self) -> None:
        """End whatever runs."""
        if self.is_alive():
            self._run("kill-server")


@pytest.fixture
def terminal(tmp_path: Path, smollm2: Path) -> Iterator[Tmux]:
    """The application on SmolLM2, with a state and a store of its own."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    command = [
        sys.executable,
        "-m",
        "ropewalk",
        "tui",
        str(smollm2),
        "--store",
        str(tmp_path / "runs.sqlite3"),
    ]
    own = {"XDG_STATE_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "TERM": "xterm-256color"}
    tmux = Tmux(tmp_path, command, own)
    yield tmux
    tmux.close()


def test_open_plan_serve_measure_stop(terminal: Tmux, tmp_path: Path) -> None:
    shown = terminal.wait_for("272 of 272")
    assert "134.52 M" in shown
    assert "blk 0-29 ×30" in shown

    terminal.press("3")
    terminal.wait_for("FITS  8,192 tokens")
    terminal.press("x")
    terminal.wait_for("next mark", gone=True)  # the slider's key: the number has the keyboard now
    terminal.press(*"1024", "Enter")
    terminal.wait_for("FITS  1,024 tokens")

    terminal.press("l")
    terminal.wait_for("s starts llama-server: fits, 1,024 tokens")
    terminal.press("s")
    shown = terminal.wait_for("● ready")
    assert " ✓  curl http://127.0.0.1:" in shown
    assert "≠ printed" not in shown  # every term is what the engine prints
    terminal.press("x")
    terminal.wait_for("○ stopped")

    terminal.press("5")
    terminal.wait_for("s measures 1,024 tokens")
    terminal.press("Tab", "Right")
    terminal.wait_for("as shipped ‹no›")  # that arm is asked up to 8,192 tokens, which takes minutes
    terminal.press("s")
    terminal.wait_for("left")
    terminal.press("p")
    terminal.wait_for("paused · c continue")
    terminal.press("c")
    terminal.wait_for("s start")  # it is over, and another one could begin
    with RunStore(tmp_path / "runs.sqlite3") as store:
        (run,) = store.runs()
        assert (run.status, run.target_len) == ("finished", 1024)
        assert run.trials >= 10

    terminal.press("6")
    terminal.wait_for(run.run_id)
    terminal.press("q")
    deadline = time.monotonic() + 30
    while terminal.is_alive():
        assert time.monotonic() < deadline
        time.sleep(0.2)
