"""Odd checkpoints, commands and logs through all that is behind the readers: only our own errors may come.

    python -m benchmarks.fuzz_pipeline [COUNT] [SEED]

COUNT (default 100,000) inputs in all. Configurations of many families, damaged and with odd values, are
inspected, planned for every engine, printed as pages at two widths, as JSON and as manifests; command lines
are analysed; logs are read. Whatever else escapes is listed with its input's number; then the status is 1.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from benchmarks.fuzz import chance, checkpoint, damaged_json, opened

from ropewalk import core
from ropewalk.emit import EmitKind
from ropewalk.engines import REGISTRY
from ropewalk.errors import RopewalkError
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.inspector.records import Inspection
from ropewalk.jsonio import dumps
from ropewalk.report.check import check_page
from ropewalk.report.inspection import inspection_page
from ropewalk.report.log_report import logreport_page
from ropewalk.report.plan import plan_page
from ropewalk.report.terminal import plain
from ropewalk.serving.host.probe import Host

Random = random.Random
WIDTHS = (60, 120)
ODD_NUMBERS = [0, 1, 17, 4096, 131072, 2**31, 2**53, 2**63 - 1]
ODD_OPTIONS = (
    "num_sequences", "memory_bytes", "max_batched_tokens", "tensor_parallel", "max_num_seqs", "gpu_layers",
)  # fmt: skip
WORDS = [
    "vllm", "serve", "./nothing", "llama-server", "-m", "x.gguf", "-c", "--ctx-size", "-np", "-ngl", "-ctk",
    "q8_0", "--max-model-len", "--hf-overrides", "--rope-scaling", "--speculative-config", "--kv-cache-dtype",
    "--tensor-parallel-size", "fp8", "--max-num-seqs", "--rope-scale", "-ot", "--gpu-memory-utilization",
    "exps=CPU", "--n-cpu-moe", "--fit", "on", "docker", "run", "-e", "vllm/vllm-openai:v0.11.0", "ollama",
    "env", "A=b", "&&", ">", "log", "|", "--", "=", "''", '"', "\\", "$(x)", "1e999", "nan", "0.9", "128k",
    "[", "{", "ExecStart=", '{"rope_type":"yarn","factor":4.0}', "a" * 300, '{"rope_parameters":' + "[" * 300,
]  # fmt: skip
LOG_LINES = [
    "INFO 11-02 10:00:00 [api_server.py:1] vLLM API server version 0.33.0",
    "INFO non-default args: {'model': './nothing', 'max_model_len': 4096}",
    "INFO [gpu_worker.py:1] Available KV cache memory: 12.34 GiB",
    "GPU KV cache size: 1,234 tokens", "Maximum concurrency for 4,096 tokens per request: 1.23x",
    "Model loading took 15.2683 GiB and 3.1 seconds", "Graph capturing finished in 4 secs, took 0.51 GiB",
    "No available memory for the cache blocks.", "build: 11549 (abcdef) with cc",
    "load_tensors: CUDA0 model buffer size = 1234.56 MiB", "llama_kv_cache: CPU KV buffer size = 180.00 MiB",
    "llama_context: n_ctx = 8192", "sched_reserve: CPU compute buffer size = 22.64 MiB",
    "llama_kv_cache: size = 180.00 MiB ( 8192 cells, 30 layers, 1/1 seqs), K (f16): 90.00 MiB",
    "common_memory_breakdown_print: | - CUDA0 | 24000 = 1 + (2 = 3 + 4 + 5) + 6 |",
]  # fmt: skip


def printed(page: Any) -> None:
    """Print it as a person would see it, at every width."""
    for width in WIDTHS:
        plain(page, width)


def judge_checkpoint(rng: Random) -> str:
    """Inspect, and plan for an engine."""
    config, tensors = json.loads(checkpoint(rng))
    text = damaged_json(rng, json.dumps(config)) if chance(rng, 0.3) else json.dumps(config)
    try:
        value = json.loads(text)
    except ValueError:
        value = config
    inspection = inspect_checkpoint(opened(value if isinstance(value, dict) else config, tensors))
    printed(inspection_page(inspection, kept=core.cache_summary(inspection)))
    plan = core.plan(inspection, host=Host(None, core.devices()), **request(rng, inspection))
    dumps(plan)
    printed(plan_page(plan))
    if chance(rng, 0.2):
        core.emit(plan, rng.choice(get_args(EmitKind)))
    return "planned"


def request(rng: Random, inspection: Inspection) -> dict[str, Any]:
    """The options of a plan, some of them odd."""
    options: dict[str, Any] = {
        "context_len": rng.choice(ODD_NUMBERS), "engine": rng.choice(list(REGISTRY)), "allow_broken": True,
    }  # fmt: skip
    for name in (
        "num_sequences",
        "memory_bytes",
        "max_batched_tokens",
        "tensor_parallel",
        "max_num_seqs",
        "gpu_layers",
    ):
        if chance(rng, 0.15):
            options[name] = rng.choice(ODD_NUMBERS)
    return options


def judge_command(rng: Random) -> str:
    """A command of words that people write, in any order."""
    words = [rng.choice(WORDS) for _ in range(rng.randint(1, 14))]
    if chance(rng, 0.6):
        words[:2] = rng.choice([["vllm", "serve"], ["llama-server", "-m"], ["ollama", "run"]])
    result = core.check(" ".join(words) if chance(rng, 0.5) else tuple(words), read=lambda name: None)
    dumps(result)
    printed(check_page(result))
    return "judged"


def judge_log(rng: Random, folder: Path) -> str:
    """Lines of logs, damaged, between others."""
    lines = [damaged_json(rng, rng.choice(LOG_LINES)) for _ in range(rng.randint(1, 20))]
    path = folder / "server.log"
    path.write_text("\n".join(lines), errors="replace")
    report = core.read_log(path)
    dumps(report)
    printed(logreport_page(report))
    return "read"


def run(name: str, judge: Callable[[Random], str], *, count: int, seed: int) -> Counter[str]:
    """Print the outcomes of one kind; returns what escaped, by where it was raised."""
    began, outcomes, escapes = time.perf_counter(), Counter[str](), Counter[str]()
    for number in range(count):
        try:
            outcomes[judge(Random(f"{seed} {name} {number}"))] += 1
        except RopewalkError as error:
            outcomes[error.code] += 1
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__} in {Path(at.filename).name}:{at.lineno}"
            if place not in escapes:
                print(f"  number {number}: {error!r}")
                traceback.print_exc(limit=-6)
            escapes[place] += 1
    print(f"{name}: {count:,} inputs in {time.perf_counter() - began:.0f} s")
    for outcome, found in outcomes.most_common():
        print(f"  {found:8,}  {outcome}")
    return escapes


def main(count: int = 100_000, seed: int = 1) -> int:
    """All kinds; the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        escapes = run("checkpoint", judge_checkpoint, count=count // 2, seed=seed)
        escapes += run("command", judge_command, count=count // 4, seed=seed)
        escapes += run("log", lambda rng: judge_log(rng, Path(folder)), count=count // 4, seed=seed)
    for place, found in escapes.most_common():
        print(f"  {found:8,}  ESCAPED: {place}")
    return int(bool(escapes))


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
