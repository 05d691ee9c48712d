"""Every run of the real engines that was recorded: the command's cells and bytes are those it printed."""

from __future__ import annotations

import json
import shlex
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ropewalk import core
from ropewalk.checking import check_command
from ropewalk.inspector.records import Inspection
from ropewalk.planner.machine import Machine

Gguf = Callable[..., Inspection]
Config = Callable[..., Inspection]


def runs(shared: Path, name: str) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = json.loads((shared / "ground_truth" / name).read_text())
    return data


def test_llama_server_runs(shared: Path, gguf: Gguf, smollm2_gguf: Inspection) -> None:
    gemma = gguf(
        {"general.architecture": "gemma3", "gemma3.context_length": 32768},
        ((3, 1, 256, None), (15, 1, 256, 512)),
        heads=4,
        hidden_size=640,
        intermediate_size=2048,
        vocab_size=262144,
    )
    models = {"smollm2": smollm2_gguf, "gemma3": gemma}
    wrong = []
    for run in runs(shared, "llama_server.json"):
        result = check_command([run["command"]], inspection=models[run["model"]])
        if not run["started"]:
            continue
        seen = (int(run["n_ctx"]), sum(run["bytes"]["kv"]))
        told = (result.resolved.kv_cells, result.resolved.kv_bytes)
        unknown = {finding.code for finding in result.findings} & {
            "unknown_flag",
            "removed_flag",
            "bad_value",
        }
        if told != seen or unknown:
            wrong.append((run["tag"], seen, told, unknown))
    assert wrong == []


def test_vllm_runs(shared: Path, config: Config) -> None:
    checked = 0
    for run in runs(shared, "vllm_cpu.json"):
        if run["model"] != "smollm2" or not run.get("ready"):
            continue
        info = run.get("cache_config_info") or {}
        unpriced = {"float32", "int8_per_token_head"} & set(run["args"])
        if info.get("kv_cache_memory_bytes", "None") == "None" or unpriced:
            continue
        env = [f"{name}={value}" for name, value in run["env"].items()]
        argv = [*env, "vllm", "serve", "smollm2", *run["args"]]
        result = check_command(argv, inspection=config("smollm2"), machine=Machine(kind="cpu"))
        assert result.resolved.kv_cells == int(info["kv_cache_size_tokens"]), shlex.join(argv)
        checked += 1
    assert checked >= 5


@pytest.fixture(scope="session")
def unpacked(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of an archive of sparse checkpoints."""

    @cache
    def unpack(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        with tarfile.open(shared / "corpus" / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        return folder

    return unpack


# vLLM 0.32 stops at LFM2's config (AttributeError: conv_dim), which is a mistake of that release.
BROKEN_RELEASE = {"lfm2_8192"}


def test_every_vllm_on_a_cpu(shared: Path, unpacked: Callable[[str], Path]) -> None:
    """25 starts of small models of many kinds (vllm-cpu 0.32): the size in tokens, and what is refused."""
    wrong = []
    for run in runs(shared, "vllm_cpu2.json"):
        if run["name"] in BROKEN_RELEASE:
            continue
        env = [f"{name}={value}" for name, value in run["env"].items()]
        folder = unpacked("engines2") / "safetensors" / run["model"]
        result = check_command(
            [*env, "vllm", "serve", "m", *run["args"]],
            inspection=core.inspect(folder),
            engine_version="0.32.0",
            machine=Machine(kind="cpu"),
        )
        seen = (run.get("cache_config_info") or {}).get("kv_cache_size_tokens")
        if run["ready"] != (result.ok is not False) or (
            run["ready"] and result.resolved.kv_cells != int(seen or 0)
        ):
            wrong.append((run["name"], seen, result.resolved.kv_cells, result.ok))
    assert wrong == []


def test_every_llama_server_on_a_cpu(shared: Path, unpacked: Callable[[str], Path]) -> None:
    """25 starts of llama.cpp 11549: cells, the context of a slot, caches and states as printed."""
    wrong = []
    for run in runs(shared, "llama_server2.json"):
        result = check_command(
            [run["command"]],
            inspection=core.inspect(unpacked("engines2") / "gguf" / f"{run['model']}.gguf"),
            engine_version="b11549",
            machine=Machine(kind="cpu"),
        )
        assert result.resolved.memory is not None
        terms = {term.name: term.bytes / 1024**2 for term in result.resolved.memory.terms}
        printed = run["bytes"]
        caches, states = sum(printed["kv_mib_printed"]), sum(printed["rs_mib_printed"])
        told = (result.resolved.kv_cells, result.resolved.context_per_request)
        if (
            told != (int(run["n_ctx"]), run["slot_n_ctx"])
            or abs(terms.get("kv_cache", 0) - caches) > 0.02 * max(1, len(printed["kv_mib_printed"]))
            or abs(terms.get("state", 0) - states) > 0.02
        ):
            wrong.append((run["tag"], told, terms))
    assert wrong == []


def test_every_command_that_people_had(shared: Path, unpacked: Callable[[str], Path]) -> None:
    """17 commands of public reports with the right answer."""
    wrong = []
    for case in json.loads((shared / "cases" / "commands2.json").read_text()):
        result = core.check(
            case["command"],
            checkpoint=unpacked("replicas") / "ck" / case["checkpoint"],
            engine_version=case["engine_version"],
        )
        codes = {finding.code for finding in result.findings}
        corrected, must = result.corrected.command if result.corrected else "", case["corrected_must"]
        right = all(word in corrected for word in must.get("has", ())) or must.get(
            "or", "-"
        ) in corrected.split("|")
        if not (right and (not case["expect_codes_any"] or codes & set(case["expect_codes_any"]))):
            wrong.append((case["id"], codes, corrected))
    assert wrong == []


def test_a_context_that_fit_left_on_a_card(shared: Path, unpacked: Callable[[str], Path]) -> None:
    """ggml-org/llama.cpp#25408: 184,320 tokens beside 2 GiB more of weights than the checkpoint here has."""
    case = next(
        one
        for one in json.loads((shared / "cases" / "commands2.json").read_text())
        if one["id"] == "fit-context-with-ngl"
    )
    result = core.check(
        case["command"],
        checkpoint=unpacked("replicas") / "ck" / case["checkpoint"],
        engine_version=case["engine_version"],
        machine=Machine(kind="gpu", memory_bytes=32111 * 1024**2),
    )
    assert (result.ok, result.findings[-1].code) == (True, "context_may_shrink")
    assert result.resolved.kv_cells is not None
    assert 184_320 < result.resolved.kv_cells < 262_144


@pytest.mark.parametrize(
    ("words", "codes", "corrected"),
    [
        ("-c 131072 -np 1", {"layers_placed"}, None),
        ("-c 131072 -np 1 -ngl 99", {"does_not_fit"}, "--n-cpu-moe"),
        ("-np 1", {"context_may_shrink", "layers_placed"}, None),
        ("-np 1 --fit off -c 4096", {"does_not_fit"}, "--n-cpu-moe"),
    ],
)
def test_what_fit_places_on_a_small_card(
    unpacked: Callable[[str], Path], words: str, codes: set[str], corrected: str | None
) -> None:
    """Qwen3.6-35B-A3B on 12 GB: experts go to the host unless the command places anything."""
    result = core.check(
        f"llama-server -m m.gguf --cache-ram 0 -ctxcp 0 {words}",
        checkpoint=unpacked("replicas") / "ck" / "Qwen3.6-35B-A3B-Q4_K.gguf",
        machine=Machine(kind="gpu", memory_bytes=11_900 * 1024**2),
    )
    assert codes <= {finding.code for finding in result.findings}
    assert (result.ok is False) == ("does_not_fit" in codes)
    assert result.corrected is not None
    assert corrected is None or corrected in result.corrected.command


def test_the_size_in_tokens_follows_the_version(shared: Path, tmp_path: Path) -> None:
    """Gemma-3-270m at 4,096 in 500 MB: before 0.21 blocks were divided among the groups."""
    config = shared / "corpus" / "configs_reconstructed" / "google--gemma-3-270m.full.json"
    (tmp_path / "config.json").write_text(config.read_text())
    command = "vllm serve m --max-model-len 4096 --kv-cache-memory-bytes 500000000"
    sizes = {
        version: core.check(
            command, checkpoint=tmp_path, engine_version=version, device="cpu"
        ).resolved.kv_cells
        for version in ("0.20.0", "0.32.0")
    }
    assert sizes == {"0.20.0": 27_008, "0.32.0": 38_000}
