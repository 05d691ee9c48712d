"""Every run of the real engines that was recorded: the command's cells and bytes are those it printed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
