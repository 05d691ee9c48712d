"""How long a command takes as a whole process, beside an interpreter that does nothing.

    python benchmarks/startup.py [RUNS]

The medians of RUNS (default 15) processes each; the files are warm. A page needs rich, ``--json`` does not.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4096, "head_dim": 128,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 151936,
    "intermediate_size": 12288, "max_position_embeddings": 40960, "rope_theta": 1000000,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
TARGET_SECONDS = 0.25


def median_seconds(argv: list[str], runs: int) -> float:
    """The median wall-clock time of a process; its output goes nowhere."""
    seconds = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:])  # the first one warms the file cache


def main(runs: int = 15) -> None:
    """Print one line per command."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(CONFIG))
        ropewalk = [sys.executable, "-m", "ropewalk"]
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "python -c 'import ropewalk'": [sys.executable, "-c", "import ropewalk"],
            "ropewalk --help": [*ropewalk, "--help"],
            "ropewalk inspect --json": [*ropewalk, "inspect", str(config), "--json"],
            "ropewalk inspect": [*ropewalk, "inspect", str(config)],
            "ropewalk plan --json": [
                *(*ropewalk, "plan", str(config), "--context", "32k"),
                *("--engine", "transformers", "--json"),
            ],
        }
        print(f"{'command':26} {'median':>8}   target {TARGET_SECONDS:.2f} s for --help and inspect")
        for name, argv in commands.items():
            print(f"{name:26} {median_seconds(argv, runs):6.3f} s")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
