"""The Containerfile, as far as it can be held without building it: its words exist on our side."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from ropewalk.cli.app import app

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Containerfile").read_text("utf-8")
PAGE = (ROOT / "docs" / "container.md").read_text("utf-8")


def instruction(name: str) -> str:
    """The last of this name, with its continuation lines."""
    joined = TEXT.replace("\\\n", " ")
    return str(re.findall(rf"^{name} (.+)$", joined, flags=re.MULTILINE)[-1]).strip()


def test_the_command_and_its_options_exist() -> None:
    assert json.loads(instruction("ENTRYPOINT")) == ["ropewalk"]
    name, *words = json.loads(instruction("CMD"))
    command = app.get_command(click.Context(app), name)
    assert command is not None
    values, _, _ = command.make_parser(click.Context(command)).parse_args(words)
    assert values == {"host": "0.0.0.0", "models_dirs": ["/models"]}
    assert "/models" in instruction("RUN useradd")


def test_the_port_and_the_health_check_are_those_of_the_service() -> None:
    pytest.importorskip("fastapi")
    from ropewalk.api.gate import needs_token
    from ropewalk.api.settings import DEFAULT_PORT

    assert int(instruction("EXPOSE")) == DEFAULT_PORT
    (asked,) = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", instruction("HEALTHCHECK"))
    assert asked == (str(DEFAULT_PORT), "/healthz")
    assert not needs_token("GET", asked[1], private=False)
    assert f":{DEFAULT_PORT}:{DEFAULT_PORT} " in PAGE


def test_what_is_copied_is_what_a_wheel_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    copied = [
        path for line in re.findall(r"^COPY (.+)$", TEXT, flags=re.MULTILINE) for path in line.split()[:-1]
    ]
    assert all((ROOT / path).exists() for path in copied)
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [project["project"]["readme"], *project["project"]["license-files"], *wheel["shared-data"]]
    assert {"pyproject.toml", "src", *needed} == set(copied)
    assert instruction("ARG") == "EXTRAS=api"
    for extras in re.findall(r"EXTRAS=([\w,]+)", TEXT + PAGE):
        assert set(extras.split(",")) <= set(project["project"]["optional-dependencies"])


def test_it_runs_as_nobody_special_and_writes_to_one_folder() -> None:
    assert int(instruction("USER")) > 1000
    written = dict(word.split("=") for word in shlex.split(instruction("ENV")))
    assert all(path.startswith("/data") for path in written.values())
    assert set(written) == {"XDG_DATA_HOME", "XDG_STATE_HOME", "HF_HOME"}
    assert "/models:/models:ro" in PAGE
