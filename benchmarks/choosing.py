"""How long a choice takes in process: 1,000 candidates for a card, from inspections that were made before.

    python benchmarks/choosing.py [RUNS]

The best of RUNS (default 3): 125 files of a model of 64 layers that differ in their bits, on two engines in
four cache types each. The smallest CPU time counts, since other work on the machine only ever adds to it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from ropewalk.core import inspect
from ropewalk.engines import EngineName
from ropewalk.inspector.records import Inspection, NamedBytes
from ropewalk.planner.choose import Target, choose
from ropewalk.planner.model import shape_of
from ropewalk.planner.plan import with_cards
from ropewalk.planner.records import PlanRequest

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.planning import CONFIG

FILES = 125
ENGINES: tuple[EngineName, ...] = ("llama-server", "llama-cpp-python")
TARGET_SECONDS = 2.0
BLOCKS = 64
# Shares of a block, tensor by tensor.
TENSORS = {"attn_q": 0.08, "attn_k": 0.01, "attn_v": 0.01, "attn_output": 0.08, "ffn_gate": 0.27,
           "ffn_up": 0.27, "ffn_down": 0.28}  # fmt: skip


def quantised(model: Inspection, number: int) -> Inspection:
    """The model as a GGUF of 2 to 8 bits a weight."""
    bits = 2 + 6 * number / FILES
    weights = shape_of(model).weights
    scale = bits / 16
    blocks = tuple(range(BLOCKS))
    layers = tuple(int(size * scale) for size in weights.layers)
    named = tuple(
        NamedBytes(f"blk.*.{name}.weight", blocks, tuple(int(size * share) for size in layers))
        for name, share in TENSORS.items()
    )
    loose = (
        NamedBytes("token_embd.weight", (), (int(weights.embedding * scale),)),
        NamedBytes("output.weight", (), (int(weights.output_head * scale),)),
    )
    stored = replace(
        weights,
        embedding=loose[0].nbytes[0],
        output_head=loose[1].nbytes[0],
        layers=tuple(sum(one.nbytes[block] for one in named) for block in blocks),
        tensors=(*named, *loose),
    )
    summary = replace(model.checkpoint, source=f"model-{number}.gguf", format="gguf")
    return replace(model, checkpoint=summary, weights=stored)


def main(runs: int = 3) -> None:
    """Print the best time and its share of the target."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(CONFIG))
        model = inspect(config)
    files = [quantised(model, number) for number in range(FILES)]
    for context_len, card in ((32_768, "H100-80GB"), (32_768, "RTX-4090"), (0, "H100-80GB")):
        targets = [
            Target(*with_cards(PlanRequest(context_len, engine, gpu=card, device="cuda")))
            for engine in ENGINES
        ]
        times = []
        for _ in range(runs):
            began = time.process_time()
            choice = choose(files, targets, device=card)
            times.append(time.process_time() - began)
        what = f"{len(choice.options):,} candidates, {context_len or 'max'} tokens, {card}"
        print(f"{what:48} {min(times):6.2f} s   {min(times) / TARGET_SECONDS:.2f} of {TARGET_SECONDS:.0f} s")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
