"""How long the headers of a large checkpoint take as a whole process, beside a loop that checks nothing.

    python benchmarks/headers.py [RUNS]

DeepSeek-V3's shape (163 shards, 91,991 tensors) as sparse files, and GGUF files with vocabularies of 49,152
and 152,064 tokens. Processes run in turn, RUNS (default 7) times each; the smallest CPU time counts, since
other work on the machine only ever adds to it. Memory is the largest resident set.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from math import ceil, prod
from pathlib import Path

WIDTHS = {"BF16": 2, "F32": 4, "F8_E4M3": 1}
Tensor = tuple[str, str, tuple[int, ...]]

# deepseek-ai/DeepSeek-V3, config.json
CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "torch_dtype": "bfloat16",
    "num_hidden_layers": 61, "num_nextn_predict_layers": 1, "hidden_size": 7168, "intermediate_size": 18_432,
    "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "moe_layer_freq": 1, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_experts_per_tok": 8, "num_attention_heads": 128, "num_key_value_heads": 128,
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "vocab_size": 129_280, "max_position_embeddings": 163_840, "rope_theta": 10_000,
    "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32,
                     "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0},
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                            "weight_block_size": [128, 128]},
    "tie_word_embeddings": False,
}  # fmt: skip

LOOP = """
import json, os, struct, sys
count = 0
for name in sorted(os.listdir(sys.argv[1])):
    if name.endswith(".safetensors"):
        with open(os.path.join(sys.argv[1], name), "rb") as stream:
            count += len(json.loads(stream.read(struct.unpack("<Q", stream.read(8))[0])))
"""
OPEN = """
import sys
from ropewalk.inspector.checkpoint import open_checkpoint
open_checkpoint(sys.argv[1])
"""


def deepseek_v3() -> Iterator[Tensor]:
    """The tensors of DeepSeek-V3 by its config: 61 layers and one for multi-token prediction, 256 experts."""
    yield "model.embed_tokens.weight", "BF16", (129_280, 7168)
    for layer in range(62):
        prefix = f"model.layers.{layer}."
        yield from _attention(prefix + "self_attn.")
        yield from _feed_forward(prefix + "mlp.", layer)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{prefix}{norm}.weight", "BF16", (7168,)
    last = "model.layers.61."
    for name, shape in (
        ("embed_tokens", (129_280, 7168)),
        ("eh_proj", (7168, 14_336)),
        ("enorm", (7168,)),
        ("hnorm", (7168,)),
        ("shared_head.norm", (7168,)),
        ("shared_head.head", (129_280, 7168)),
    ):
        yield f"{last}{name}.weight", "BF16", shape
    yield "model.norm.weight", "BF16", (7168,)
    yield "lm_head.weight", "BF16", (129_280, 7168)


def _attention(prefix: str) -> Iterator[Tensor]:
    for name, shape in (
        ("q_a_proj", (1536, 7168)),
        ("q_b_proj", (24_576, 1536)),
        ("kv_b_proj", (32_768, 512)),
        ("kv_a_proj_with_mqa", (576, 7168)),
        ("o_proj", (7168, 16_384)),
    ):
        yield from _fp8(prefix + name, shape)
    yield f"{prefix}q_a_layernorm.weight", "BF16", (1536,)
    yield f"{prefix}kv_a_layernorm.weight", "BF16", (512,)


def _feed_forward(prefix: str, layer: int) -> Iterator[Tensor]:
    if layer < 3:
        blocks = {"": 18_432}
    else:
        blocks = {f"experts.{expert}.": 2048 for expert in range(256)} | {"shared_experts.": 2048}
        yield f"{prefix}gate.weight", "BF16", (256, 7168)
        yield f"{prefix}gate.e_score_correction_bias", "F32", (256,)
    for block, width in blocks.items():
        yield from _fp8(f"{prefix}{block}gate_proj", (width, 7168))
        yield from _fp8(f"{prefix}{block}up_proj", (width, 7168))
        yield from _fp8(f"{prefix}{block}down_proj", (7168, width))


def _fp8(name: str, shape: tuple[int, int]) -> Iterator[Tensor]:
    """A weight with one scale for each 128 x 128 block."""
    yield f"{name}.weight", "F8_E4M3", shape
    yield f"{name}.weight_scale_inv", "F32", (ceil(shape[0] / 128), ceil(shape[1] / 128))


def write_sharded(folder: Path, *, num_shards: int) -> None:
    """Sparse shards of about equal size, their index and the config."""
    folder.mkdir()
    tensors = [(name, dtype, shape, prod(shape) * WIDTHS[dtype]) for name, dtype, shape in deepseek_v3()]
    total = sum(nbytes for *_, nbytes in tensors)
    weight_map: dict[str, str] = {}
    shards: list[dict[str, object]] = [{} for _ in range(num_shards)]
    ends, reached = [0] * num_shards, 0
    for name, dtype, shape, nbytes in tensors:
        shard = min(reached * num_shards // total, num_shards - 1)
        start, reached = ends[shard], reached + nbytes
        ends[shard] += nbytes
        shards[shard][name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, ends[shard]]}
        weight_map[name] = f"model-{shard + 1:05d}-of-{num_shards:05d}.safetensors"
    for number, (header, end) in enumerate(zip(shards, ends, strict=True), start=1):
        raw = json.dumps(header, separators=(",", ":")).encode()
        path = folder / f"model-{number:05d}-of-{num_shards:05d}.safetensors"
        write_sparse(path, struct.pack("<Q", len(raw)) + raw, end)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    (folder / "config.json").write_text(json.dumps(CONFIG))


def write_gguf(path: Path, *, vocabulary: int) -> None:
    """A small model with a large vocabulary: as many tokens, token types and merges."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    def strings(key: str) -> bytes:
        items = b"".join(text(f"token{number}") for number in range(vocabulary))
        return text(key) + struct.pack("<IIQ", 9, 8, vocabulary) + items

    keys = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.context_length") + struct.pack("<II", 4, 131_072),
        strings("tokenizer.ggml.tokens"),
        text("tokenizer.ggml.token_type") + struct.pack("<IIQ", 9, 5, vocabulary) + bytes(4 * vocabulary),
        strings("tokenizer.ggml.merges"),
    ]
    info = text("token_embd.weight") + struct.pack("<IQQIQ", 2, 4096, vocabulary, 0, 0)
    header = b"GGUF" + struct.pack("<IQQ", 3, 1, len(keys)) + b"".join(keys) + info
    write_sparse(path, header + bytes(-len(header) % 32), 4 * 4096 * vocabulary)


def write_sparse(path: Path, header: bytes, data_bytes: int) -> None:
    """A file whose data is a hole."""
    with path.open("wb") as stream:
        stream.write(header)
        stream.truncate(len(header) + data_bytes)


def apart(write: Callable[[], None]) -> None:
    """Write files in another process: what this one has ever held is counted as its children's memory."""
    child = os.fork()
    if child == 0:
        write()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the files could not be written")


def measure(argv: list[str], *, cache: Path) -> tuple[float, int]:
    """CPU seconds and the largest resident set in KiB of one process, compiled in ``cache``."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(cache)
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, env=env)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(argv)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def compare(title: str, commands: dict[str, list[str]], *, runs: int, cache: Path) -> None:
    """Run all in turn and print them beside the first."""
    for argv in commands.values():
        measure(argv, cache=cache)  # the first run compiles
    results: dict[str, list[tuple[float, int]]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, argv in commands.items():
            results[name].append(measure(argv, cache=cache))
    print(f"{title:34} {'CPU':>8} {'ratio':>7} {'memory':>11}")
    first = min(results[next(iter(results))])[0]
    for name, measured in results.items():
        seconds = min(measured)[0]
        memory = max(kib for _, kib in measured) / 1024
        print(f"  {name:32} {seconds:6.3f} s {seconds / first:6.2f}x {memory:7.1f} MiB")


def main(runs: int = 7) -> None:
    """Print one table for each kind of checkpoint."""
    python = sys.executable
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shards, cache = folder / "deepseek-v3", folder / "compiled"
        apart(lambda: write_sharded(shards, num_shards=163))
        commands = {
            "loop over the headers": [python, "-c", LOOP, str(shards)],
            "open_checkpoint": [python, "-c", OPEN, str(shards)],
            "ropewalk inspect --json": [python, "-m", "ropewalk", "inspect", str(shards), "--json"],
        }
        compare("163 shards, 91,991 tensors", commands, runs=runs, cache=cache)
        commands = {"python -c pass": [python, "-c", "pass"]}
        for vocabulary in (49_152, 152_064):
            path = folder / f"{vocabulary}.gguf"
            apart(partial(write_gguf, path, vocabulary=vocabulary))
            commands[f"open_checkpoint, {vocabulary:,} tokens"] = [python, "-c", OPEN, str(path)]
        compare("GGUF", commands, runs=runs, cache=cache)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
