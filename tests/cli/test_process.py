"""The command as a process: what it imports, what reaches standard output, how a closed pipe ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"rich", "pydantic", "httpx2", "huggingface_hub", "textual"}


def ropewalk(*argv: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run ``python -m ropewalk`` with its output in pipes."""
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    command = [sys.executable, "-m", "ropewalk", *argv]
    return subprocess.run(command, capture_output=True, env={**env, **environment}, timeout=60)


def imported_by(*argv: str) -> set[str]:
    """Top-level modules that a command has imported when it ends."""
    script = (
        "import sys, atexit, os\n"
        "from ropewalk.cli.app import run\n"
        f"run({list(argv)!r})\n"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A config alone: enough to inspect."""
    config = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "head_dim": 16,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
        "intermediate_size": 128, "max_position_embeddings": 4096, "rope_theta": 10000.0,
        "tie_word_embeddings": True,
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return path


def test_help_imports_nothing_heavy() -> None:
    assert imported_by("--help").isdisjoint(HEAVY)


def test_inspect_json_imports_nothing_heavy(small: Path) -> None:
    modules = imported_by("inspect", str(small), "--json")
    assert "click" in modules
    assert modules.isdisjoint(HEAVY)


def test_standard_output_is_one_json_document(small: Path) -> None:
    done = ropewalk("inspect", str(small), "--json")
    assert done.stderr == b""
    assert json.loads(done.stdout)["checkpoint"]["format"] == "config"


def test_a_missing_checkpoint_is_an_error_record_and_status_3(tmp_path: Path) -> None:
    done = ropewalk("inspect", str(tmp_path / "nothing"), "--json")
    assert done.returncode == 3
    record = json.loads(done.stdout)
    assert (record["schema"], record["code"]) == ("ropewalk.error/1", "checkpoint_missing")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    "environment", [{}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, {"TERM": "dumb", "FORCE_COLOR": "1"}]
)
def test_no_escape_codes_in_pipes_and_where_they_are_not_wanted(
    environment: dict[str, str], small: Path
) -> None:
    done = ropewalk("inspect", str(small), **environment)
    assert b"reaches" in done.stdout
    assert b"\x1b" not in done.stdout + done.stderr


def test_colour_where_it_is_asked_for(small: Path) -> None:
    assert b"\x1b[1m" in ropewalk("inspect", str(small), FORCE_COLOR="1", TERM="xterm-256color").stdout


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_a_reader_that_left_changes_nothing(option: tuple[str, ...], small: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "ropewalk", "inspect", str(small), *option]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=60)
    os.close(writing)
    assert done.returncode == 0
    assert done.stderr == b""


def test_a_narrow_encoding_loses_characters_not_the_page(small: Path) -> None:
    done = ropewalk("inspect", str(small), PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert b"findings" in done.stdout
    record = ropewalk("inspect", str(small), "--json", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    json.loads(record.stdout.decode("utf-8"))


def test_shell_completion_is_there() -> None:
    done = ropewalk(_ROPEWALK_COMPLETE="bash_source")
    assert b"_ROPEWALK_COMPLETE=bash_complete" in done.stdout


def test_being_told_to_end_is_an_interrupt() -> None:
    script = (
        "import os, signal, sys\n"
        "from ropewalk import cli, core\n"
        "core.inspect = lambda source: os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.argv = ['ropewalk', 'inspect', 'x']\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr.strip() == "ropewalk: interrupted"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the device is Linux's")
@pytest.mark.parametrize("option", [(), ("--json",)])
def test_a_full_disk_is_an_error_and_no_bug(option: tuple[str, ...], small: Path) -> None:
    command = [sys.executable, "-m", "ropewalk", "inspect", str(small), *option]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == "ropewalk: standard output cannot be written: No space left on device\n"


@pytest.mark.parametrize("closed", ["1", "2"])
def test_a_stream_that_is_closed_changes_nothing(closed: str, small: Path) -> None:
    shell = f'exec "$0" -m ropewalk inspect "$1" --json {closed}>&-'
    done = subprocess.run(["sh", "-c", shell, sys.executable, str(small)], capture_output=True, timeout=60)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert bool(done.stdout) == (closed == "2")
