"""A verdict is never better than what it rests on, and a repaired command is right."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.checking.conftest import ROOMY
from tests.patching import patch_core

from ropewalk import core
from ropewalk.checking import CheckResult, check_command
from ropewalk.errors import CheckpointMissingError, HubError, UsageError
from ropewalk.findings import Finding
from ropewalk.inspector.records import Inspection
from ropewalk.planner.machine import Machine

Gguf = Callable[..., Inspection]
Config = Callable[..., Inspection]
GIB = 1024**3
BROKEN = Finding("missing_shards", "error", "1 shard is missing", {"file": "model-2.safetensors"})


def codes(result: CheckResult) -> set[str]:
    return {finding.code for finding in result.findings}


@pytest.mark.parametrize("command", ["vllm serve m --max-model-len 4096", "llama-server -m m -c 4096 -np 1"])
def test_nothing_is_ok_that_was_not_read(command: str, smollm2_gguf: Inspection) -> None:
    nothing = check_command([command])
    assert (nothing.ok, nothing.not_judged) == (None, ("model", "memory"))
    assert {"checkpoint_not_read"} <= codes(nothing)
    model = check_command([command], inspection=smollm2_gguf)
    assert (model.ok, model.not_judged) == (None, ("memory",))
    assert "memory_unknown" in codes(model)
    both = check_command([command], inspection=smollm2_gguf, machine=ROOMY)
    assert (both.ok, both.not_judged) == (True, ())


@pytest.mark.parametrize("command", ["vllm serve m --max-model-len 4096", "llama-server -m m -c 4096 -np 1"])
def test_errors_of_the_checkpoint_are_errors_of_the_command(command: str, smollm2_gguf: Inspection) -> None:
    broken = replace(smollm2_gguf, findings=(BROKEN,))
    result = check_command([command], inspection=broken, machine=ROOMY)
    assert (result.ok, result.corrected) == (False, None)
    assert result.findings[0].code == "missing_shards"
    assert result.findings[0].where["file"] == "model-2.safetensors"


def test_an_error_counts_though_something_is_not_judged() -> None:
    result = check_command(["llama-server -m m -c 128k"])
    assert (result.ok, result.not_judged) == (False, ("model", "memory"))


def test_the_model_is_read_from_the_hub(monkeypatch: pytest.MonkeyPatch, smollm2_gguf: Inspection) -> None:
    asked: list[str] = []

    def inspect(source: str) -> Inspection:
        asked.append(source)
        if source == "org/gone":
            raise HubError("org/gone is not on the Hub")
        return smollm2_gguf

    patch_core(monkeypatch, "inspect", inspect)
    assert core.check("vllm serve org/there --max-model-len 200000").ok is False
    assert core.check("llama-server -hf org/there:Q4_K_M -c 4096 -np 1", machine=ROOMY).ok
    assert core.check("docker run vllm/vllm-openai:v0.30.0 --model org/there", machine=ROOMY).ok
    gone = core.check("vllm serve org/gone --max-model-len 4096", machine=ROOMY)
    assert (gone.ok, gone.not_judged) == (None, ("model", "memory"))
    assert "not on the Hub" in gone.findings[0].message
    assert core.check("docker run vllm/vllm-openai:v0.30.0 --model /inside").not_judged == ("model", "memory")
    assert asked == ["org/there", "org/there:Q4_K_M", "org/there", "org/gone"]


def test_a_checkpoint_that_is_here_and_cannot_be_read_is_no_open_question(tmp_path: Path) -> None:
    with pytest.raises(CheckpointMissingError):
        core.check(f"vllm serve {tmp_path}")


def test_home_and_variables_are_looked_up_and_stay_as_written(
    monkeypatch: pytest.MonkeyPatch, smollm2_gguf: Inspection
) -> None:
    asked: list[str] = []

    def inspect(source: str) -> Inspection:
        asked.append(source)
        return smollm2_gguf

    patch_core(monkeypatch, "inspect", inspect)
    monkeypatch.setenv("HOME", "/home/u")
    result = core.check(
        'llama-server -m ~/"my models"/x.gguf --log-file "$HOME/log" -c 8k -np 1 2>&1 | tee "$LOG"'
    )
    assert asked == ["/home/u/my models/x.gguf"]
    assert result.corrected is not None
    assert result.corrected.command == (
        'llama-server -m ~/"my models"/x.gguf --log-file "$HOME/log" -c 8192 -np 1 2>&1 | tee "$LOG"'
    )


def test_a_shared_or_divided_cache_is_not_multiplied_again(llama_gguf: Inspection) -> None:
    """`-c 131072 -np 4` became `-c 524288`, then 2,097,152."""
    seen, command = [], "llama-server -m x.gguf -cram 0 -c 131072 -np 4"
    for _ in range(4):
        result = check_command([command], inspection=llama_gguf, machine=ROOMY)
        assert result.corrected is not None
        command = result.corrected.command
        seen.append(command)
    assert set(seen) == {"llama-server -m x.gguf -cram 0 -c 131072 -np 4 --kv-unified"}


@pytest.fixture
def llama_gguf(gguf: Gguf) -> Inspection:
    return gguf({"general.architecture": "llama", "llama.context_length": 131072}, ((32, 8, 128, None),))


def test_a_device_that_is_too_small_is_told_with_what_fits(llama_gguf: Inspection) -> None:
    small = Machine(kind="gpu", memory_bytes=24 * GIB)
    command = "llama-server -m x.gguf -c 131072 -np 1 -cram 0 -ngl 99 -fa on"
    result = check_command([command], inspection=llama_gguf, machine=small)
    assert result.ok is False
    assert "does_not_fit" in codes(result)
    assert result.corrected is not None
    again = check_command([result.corrected.command], inspection=llama_gguf, machine=small)
    assert again.ok
    assert again.resolved.kv_cells is not None
    assert 8192 < again.resolved.kv_cells < 131072


def test_a_vllm_that_would_stop_is_told_with_the_longest_length(config: Config) -> None:
    small = Machine(kind="gpu", memory_bytes=24 * GIB)
    result = check_command(
        ["vllm serve m --max-model-len 131072"], inspection=config("llama-3.1-8b"), machine=small
    )
    assert result.ok is False
    assert result.corrected is not None
    again = check_command([result.corrected.command], inspection=config("llama-3.1-8b"), machine=small)
    assert again.ok, again.findings


def cases(shared: Path) -> list[tuple[str, str, str | None]]:
    rows = json.loads((shared / "cases" / "commands2.json").read_text())
    rows += [
        {"id": run["tag"], **run}
        for run in json.loads((shared / "ground_truth" / "llama_server.json").read_text())
    ]
    return [(row["id"], row["command"], row.get("engine_version")) for row in rows]


def test_every_repaired_command_is_right(shared: Path, config: Config, smollm2_gguf: Inspection) -> None:
    """Over all commands collected: what is repaired has no error left, and is not repaired again."""
    wrong = []
    for name, command, version in cases(shared):
        inspection = config("qwen3-8b") if "vllm" in command else smollm2_gguf
        for machine in (Machine(), ROOMY, Machine(kind="gpu", memory_bytes=48 * GIB)):
            result = check_command([command], inspection=inspection, engine_version=version, machine=machine)
            if result.corrected is None:
                continue
            again = check_command(
                [result.corrected.command], inspection=inspection, engine_version=version, machine=machine
            )
            if (
                again.ok is False
                or again.corrected is None
                or again.corrected.command != result.corrected.command
            ):
                wrong.append((name, result.corrected.command, again.corrected, again.findings))
    assert wrong == []


def test_a_card_is_judged_for_by_its_name(smollm2_gguf: Inspection) -> None:
    command = "llama-server -m x.gguf -c 8192 -np 1 -ngl 99"
    assert core.check(command, checkpoint=smollm2_gguf, gpu="RTX 4090").ok
    assert core.check(command, checkpoint=smollm2_gguf, gpu="RTX 4090", memory_bytes=2 << 20).ok is False
    for wrong in (
        {"gpu": "RTX 4091"},
        {"gpu": "L40S", "device": "cpu"},
        {"device": "tpu"},
        {"memory_bytes": 24},
    ):
        with pytest.raises(UsageError):
            core.check(command, checkpoint=smollm2_gguf, **wrong)


@pytest.mark.parametrize(
    "words",
    [
        ("vllm", "serve", "m", "--hf-overrides", "[" * 100_000),
        ("vllm", "serve", "m", "--max-model-len", "9" * 300),
        ("vllm", "serve", "m", "--max-model-len", "9" * 5000),
        ("llama-server", "-c", "9" * 5000),
        ("llama-server", "-np", "2147483647"),
        ("llama-server", "-ts", "nan,inf"),
    ],
)
def test_numbers_and_depths_beyond_reason_are_told(words: tuple[str, ...], smollm2_gguf: Inspection) -> None:
    assert check_command(words, inspection=smollm2_gguf, machine=ROOMY).engine == words[0]


def test_more_words_than_a_system_starts_are_refused() -> None:
    with pytest.raises(UsageError):
        check_command(["llama-server", *(f"--no-{number}" for number in range(60_000))])


ASKED = ("", "-c 131072", "-c 32k -np 4", "-c 262144 -np 2 -ngl 99", "-c 65536 -ctv q8_0 -fa off", "-np 300")
SMALL = (Machine(memory_bytes=8 * GIB), Machine(kind="gpu", memory_bytes=24 * GIB))
LENGTHS = ("", "--max-model-len 128k", "--max-model-len 200000 --gpu-memory-utilization 0.5", "-tp 2")


@pytest.mark.parametrize("machine", SMALL)
def test_a_repair_for_a_small_device_is_settled(
    llama_gguf: Inspection, config: Config, machine: Machine
) -> None:
    """Where the device ends first, too: what is repaired is OK there, and is not repaired again."""
    asked = [(f"llama-server -m x.gguf {words}", llama_gguf) for words in ASKED]
    asked += [(f"vllm serve m {words}", config("llama-3.1-8b")) for words in LENGTHS]
    for command, inspection in asked:
        repaired = check_command([command], inspection=inspection, machine=machine).corrected
        if repaired is not None:
            again = check_command([repaired.command], inspection=inspection, machine=machine)
            assert again.ok or not repaired.changed, (command, repaired.command, again.findings)
            assert again.corrected is not None
            assert again.corrected.command == repaired.command
