"""The command itself: help, exit statuses, and that no mistake of a user's shows a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Invoke

from ropewalk import core
from ropewalk.cli.app import COMMANDS, Commands, app
from ropewalk.cli.failures import BUG_STATUS
from ropewalk.errors import (
    CheckpointError,
    EngineMissingError,
    EngineTimeoutError,
    HubError,
    RopewalkError,
    RunStoreError,
    UsageError,
)

NAMES = [name for section in COMMANDS.values() for name in section]
CONTRACT = (
    "inspect tensors rope plan choose compare check serve servers stop measure attend runs tui web api doctor"
    " engine demo receipts bake"
)


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def inspect(source: str) -> Any:
        raise error

    monkeypatch.setattr(core, "inspect", inspect)


def test_the_commands_are_those_of_the_contract() -> None:
    assert sorted(NAMES) == sorted(CONTRACT.split())


def test_help_lists_every_command_with_its_line(invoke: Invoke) -> None:
    outcome = invoke("--help")
    assert outcome.status == 0
    for section in COMMANDS.values():
        for name, text in section.items():
            assert f"  {name} " in outcome.out
            assert text.split(",")[0].split(".")[0] in outcome.out
    assert "4  the engine is missing, failed or did not answer" in outcome.out
    assert "_ROPEWALK_COMPLETE=zsh_source" in outcome.out


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_command_has_help_with_an_example(name: str, invoke: Invoke) -> None:
    words = ("engine", "add") if name == "engine" else (name,)
    outcome = invoke(*words, "--help")
    assert outcome.status == 0
    assert "Examples:" in outcome.out
    assert f"\n  ropewalk {name}" in outcome.out
    assert "--debug" in outcome.out


def test_no_command_shows_the_help(invoke: Invoke) -> None:
    outcome = invoke()
    assert outcome.status == 2
    assert "Read a checkpoint:" in outcome.err


def test_an_unknown_command_and_an_unknown_option_are_wrong_usage(invoke: Invoke) -> None:
    assert invoke("inspekt").status == 2
    outcome = invoke("inspect", "x", "--jsn")
    assert outcome.status == 2
    assert "--json" in outcome.err  # click says what was meant
    assert outcome.out == ""


def test_what_is_no_command_says_what_to_type(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "there is no command 'inspct'; did you mean 'inspect'?" in invoke("inspct", "x").err
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.gguf").touch()
    assert "for that file or folder: ropewalk inspect model.gguf" in invoke("model.gguf").err
    assert "No such command 'zzzz'." in invoke("zzzz").err


def test_help_of_a_group_has_examples_too(invoke: Invoke) -> None:
    assert "\n  ropewalk engine add vllm-cpu" in invoke("engine", "--help").out


def test_wrong_usage_with_json_is_a_record_too(invoke: Invoke) -> None:
    outcome = invoke("plan", "model", "--context", "many", "--json")
    assert outcome.status == 2
    record = json.loads(outcome.out)
    assert (record["schema"], record["code"]) == ("ropewalk.error/1", "usage")
    assert "'many' is not a token count" in record["message"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("u"), 2),
        (RunStoreError("r"), 2),
        (CheckpointError("c"), 3),
        (HubError("h"), 3),
        (EngineMissingError("m"), 4),
        (EngineTimeoutError("t"), 4),
    ],
)
def test_our_errors_have_their_status_and_travel_as_records(
    error: RopewalkError, status: int, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    error.where["file"] = "model.safetensors"
    failing(monkeypatch, error)
    outcome = invoke("inspect", "model", "--json")
    assert outcome.status == status
    assert json.loads(outcome.out) == error.record()
    assert outcome.err.startswith(f"ropewalk: {error.message}\n")
    assert "Traceback" not in outcome.err


def test_without_json_an_error_leaves_standard_output_empty(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, CheckpointError("nothing there", code="checkpoint_missing"))
    outcome = invoke("inspect", "model")
    assert outcome.out == ""
    assert outcome.err.splitlines()[1].strip().startswith("give a folder")


def test_json_after_the_separator_is_not_ours(invoke: Invoke) -> None:
    assert invoke("check", "--", "ollama", "serve", "--json").out == ""


def test_a_bug_is_called_one_and_its_traceback_waits_for_debug(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, ZeroDivisionError("division by zero"))
    outcome = invoke("inspect", "model")
    assert outcome.status == BUG_STATUS
    assert outcome.err.splitlines() == [
        "ropewalk: this is a bug in ropewalk: ZeroDivisionError: division by zero",
        "          details with --debug",
    ]
    assert "Traceback" in invoke("inspect", "model", "--debug").err
    assert "Traceback" in invoke("--debug", "inspect", "model").err


def test_an_interrupt_ends_with_130_and_one_line(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, KeyboardInterrupt())
    outcome = invoke("inspect", "model")
    assert outcome.status == 130
    assert outcome.err.strip() == "ropewalk: interrupted"


def test_a_command_that_is_not_listed_is_not_imported() -> None:
    assert isinstance(app, Commands)
    with app.make_context("ropewalk", ["inspect"]) as context:
        assert app.get_command(context, "output") is None
