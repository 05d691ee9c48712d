"""How long a plan takes in process, for a model of 64 layers: single plans and a sweep of 1,000 variants.

    python benchmarks/planning.py [RUNS]

The best of RUNS (default 50): what a screen that plans again at every keystroke has to wait for.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

from ropewalk.core import inspect
from ropewalk.engines import EngineName
from ropewalk.inspector.records import Inspection
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import PlanRequest
from ropewalk.units import GIB

# Qwen3-32B.
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 5120, "head_dim": 128,
    "num_hidden_layers": 64, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 151936,
    "intermediate_size": 25600, "max_position_embeddings": 40960, "rope_theta": 1000000,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
ENGINES: tuple[EngineName, ...] = ("llama-server", "vllm", "transformers")
TARGET_MILLISECONDS = 2.0
TARGET_SECONDS = 1.0


def best_seconds(run: Callable[[], object], runs: int) -> float:
    """The shortest of several calls: what is left is the code's own time."""
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


def sweep(inspection: Inspection) -> int:
    """Plans over lengths, sequences and cache types; how many."""
    lengths = range(4096, 129_024, 2500)
    variants = list(product(lengths, (1, 2, 4, 8), ("f16", "q8_0", "q5_1", "q4_0", "f32")))
    for length, count, kind in variants:
        request = PlanRequest(length, "llama-server", count, cache_type_k=kind, cache_type_v=kind)
        make_plan(inspection, request)
    return len(variants)


def main(runs: int = 50) -> None:
    """Print one line per case, with its share of the target."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(CONFIG))
        inspection = inspect(config)
    print(f"{'plan of 64 layers':38} {'best':>8}   target {TARGET_MILLISECONDS:.0f} ms")
    for engine, budget in product(ENGINES, (None, 96 * GIB)):
        request = PlanRequest(32_768, engine, memory_bytes=budget)
        milliseconds = 1000 * best_seconds(partial(make_plan, inspection, request), runs)
        name = f"{engine}, {'what it takes' if budget is None else 'and what fits'}"
        print(f"{name:38} {milliseconds:6.2f} ms   {milliseconds / TARGET_MILLISECONDS:.2f} of it")
    began = time.perf_counter()
    number = sweep(inspection)
    seconds = time.perf_counter() - began
    print(
        f"{f'{number:,} variants, llama-server':38} {seconds:6.2f} s    {seconds / TARGET_SECONDS:.2f} of it"
    )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
