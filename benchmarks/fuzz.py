"""Damaged headers by the hundred thousand: each must give a record or one of our errors, and nothing else.

    python benchmarks/fuzz.py [COUNT] [SEED]

COUNT (default 200,000) files of each format, none larger than some KB; about two million a CPU hour.
"""

from __future__ import annotations

import json
import random
import re
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any

from ropewalk.errors import CheckpointError
from ropewalk.findings import Finding
from ropewalk.inspector.derive.configs import ALIASES, NESTING_KEYS
from ropewalk.inspector.derive.families import TABLE
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.inspector.readers.cursor import Cursor
from ropewalk.inspector.readers.dtypes import BITS
from ropewalk.inspector.readers.ggml_types import GGML_TYPES
from ropewalk.inspector.readers.gguf import parse_gguf
from ropewalk.inspector.readers.index import parse_index
from ropewalk.inspector.readers.safetensors import SNIFF_BYTES, HeaderReader, header_length
from ropewalk.inspector.records import Checkpoint
from ropewalk.inspector.tensors import TensorTable
from ropewalk.jsonio import dumps
from ropewalk.planner.model import shape_of

Random = random.Random
NUMBERS = [
    0,
    1,
    2,
    3,
    4,
    8,
    9,
    12,
    13,
    31,
    32,
    64,
    255,
    2**16,
    2**31,
    2**32,
    2**61,
    2**63 - 1,
    2**63,
    2**64 - 1,
]
LISTED = '["F32",[1],[0,4]]'  # serde takes this for an entry; the format does not
TOKENS = [
    *map(str, NUMBERS), "-1", "1.0", "1e0", "1e999", "+1", "00", "true", "null", "NaN", "{}", "[]", '"x"',
    '"F32"', '"F3"', "[1]", LISTED, '{"a":1,"a":2}', "[0]", "[0,1,2]", ",", ":", '"', "{", "}", "[", "]",
    "\\", "\0", "\n", '"\\u0061"', '"\\ud800"', "\ufeff", '"__metadata__":', '"../x"',
]  # fmt: skip


def chance(rng: Random, probability: float) -> bool:
    """True that often."""
    return rng.random() < probability


def safetensors_file(rng: Random) -> bytes:
    """A small file; sound, damaged in one place or in three."""
    header: dict[str, Any] = {}
    end = 0
    if chance(rng, 0.3):
        header["__metadata__"] = rng.choice(
            [{}, {"format": "pt"}, {"a": "b:c"}, None, {"a": 1}, [], {"a": {}}]
        )
    for number in range(rng.randint(0, 4)):
        dtype = rng.choice(["F32", "U8"] if chance(rng, 0.7) else list(BITS))
        shape = [rng.choice([0, 1, 1, 2, 4, 8]) for _ in range(rng.randint(0, 3))]
        start = end if chance(rng, 0.93) else max(0, end + rng.choice([-4, -1, 1, 4]))
        end = start + prod(shape) * BITS[dtype] // 8
        entry = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
        if chance(rng, 0.1):
            entry.pop(rng.choice(list(entry)))
        header[f"{rng.choice('abc')}{number}"] = entry
    if chance(rng, 0.2):
        header = dict(sorted(header.items(), key=lambda item: rng.random()))
    text = damaged_json(rng, json.dumps(header, separators=rng.choice([(",", ":"), (", ", ": ")])))
    raw = text.encode("utf-8", "surrogatepass")
    length = len(raw) if chance(rng, 0.97) else rng.choice([*NUMBERS, len(raw) - 1, len(raw) + 1]) % 2**64
    data = end if chance(rng, 0.95) else max(0, end + rng.choice([-1, 1, 9]))
    return struct.pack("<Q", max(length, 0)) + raw + bytes(data)


def damaged_json(rng: Random, text: str) -> str:
    """Replace values by others, repeat, cut or insert; in a third of cases nothing."""
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        places = list(re.finditer(r'"[^"]*"(?::[^,]*)?|\[[^\]]*\]|-?\d+', text))
        if not places:
            break
        place, token = rng.choice(places), rng.choice(TOKENS)
        kind = rng.randrange(5)
        if kind < 2:
            text = text[: place.start()] + token + text[place.end() :]
        elif kind == 2:
            text = f"{text[: place.end()]},{place[0]}{text[place.end() :]}"
        elif kind == 3:
            text = text[: place.start()] + text[place.end() :]
        else:
            at = rng.randrange(len(text))
            text = text[:at] + token + text[at + rng.randint(0, 2) :]
    return text


def index_file(rng: Random) -> bytes:
    """A small index, damaged."""
    names = [f"model-{number:05d}-of-00003.safetensors" for number in (1, 2, 3)]
    weight_map = {f"w{number}": rng.choice(names) for number in range(rng.randint(0, 4))}
    index = {"metadata": {"total_size": rng.choice(NUMBERS)}, "weight_map": weight_map}
    return damaged_json(rng, json.dumps(index, indent=rng.choice([None, 2]))).encode("utf-8", "surrogatepass")


SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def gguf_file(rng: Random) -> bytes:
    """A small file, damaged; offsets and padding as llama.cpp wants them before that."""
    alignment = rng.choice([32, 32, 32, 64, 8])
    keys = [] if alignment == 32 else [gguf_text("general.alignment") + struct.pack("<II", 4, alignment)]
    keys += [gguf_key(rng, f"k{number}") for number in range(rng.randint(0, 4))]
    infos, at = [], 0
    for number in range(rng.randint(0, 4)):
        kind = rng.choice(list(GGML_TYPES) if chance(rng, 0.5) else [0])
        block = GGML_TYPES[kind]
        dims = [
            block.block_len * rng.randint(0, 2),
            *(rng.choice([0, 1, 2, 3]) for _ in range(rng.randint(0, 3))),
        ]
        name = rng.choice("abc") + (str(number) if chance(rng, 0.9) else "")
        place = at if chance(rng, 0.95) else rng.choice([0, 32, 64])
        infos.append(gguf_text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, place))
        nbytes = prod(dims) // block.block_len * block.block_bytes
        at = -(-(place + nbytes) // alignment) * alignment
    start = b"GGUF" + struct.pack("<IQQ", rng.choice([2, 3, 3, 3]), len(infos), len(keys))
    header = start + b"".join(keys) + b"".join(infos)
    header += bytes(-len(header) % alignment)
    return damaged_bytes(rng, header) + bytes(at)


def gguf_text(text: str) -> bytes:
    """A string with its length."""
    return struct.pack("<Q", len(text)) + text.encode()


def gguf_key(rng: Random, name: str) -> bytes:
    """A key with a string, a number or a short array."""
    kind = rng.choice([8, *SCALARS])
    count = rng.randint(0, 5)
    many = chance(rng, 0.3)
    if kind == 8:
        body = gguf_text("text") * (count if many else 1)
    else:
        body = struct.pack(f"<{count if many else 1}{SCALARS[kind]}", *[1] * (count if many else 1))
    return gguf_text(name) + (struct.pack("<IIQ", 9, kind, count) if many else struct.pack("<I", kind)) + body


def damaged_bytes(rng: Random, raw: bytes) -> bytes:
    """Overwrite single bytes and whole numbers, cut and insert; in a third of cases nothing."""
    data = bytearray(raw)
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        at, number = rng.randrange(max(len(data), 1)), rng.choice(NUMBERS)
        kind = rng.randrange(6)
        if kind == 0:
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            data[at : at + 4] = struct.pack("<I", number % 2**32)
        elif kind == 2:
            data[at : at + 8] = struct.pack("<Q", number)
        elif kind == 3:
            del data[at : at + rng.choice([1, 4, 8])]
        elif kind == 4:
            data[at:at] = bytes(rng.choice([1, 4, 8]))
        elif chance(rng, 0.2):
            del data[at:]
    return bytes(data)


def told(*faults: CheckpointError | Finding) -> list[str]:
    """The codes of errors. What is told must be fit for printing and for JSON."""
    for fault in faults:
        assert len(f"{fault.message}{dumps(fault.where)}".encode()) < 20_000
    return [fault.code for fault in faults if isinstance(fault, CheckpointError) or fault.severity == "error"]


def judge_safetensors(raw: bytes) -> list[str]:
    """The codes of the errors in a file; none where it is sound."""
    try:
        length = header_length(raw[:SNIFF_BYTES], file="f", file_bytes=len(raw))
        end = 8 + length
        header = HeaderReader().read(raw[8:end], file="f", data_bytes=len(raw) - end)
    except CheckpointError as error:
        return told(error)
    return told(*header.findings)


def judge_gguf(raw: bytes) -> list[str]:
    """The codes of the errors in a file; none where it is sound."""
    try:
        cursor = Cursor(lambda offset, count: raw[offset : offset + count], size=len(raw), file="f")
        file = parse_gguf(cursor)
    except CheckpointError as error:
        return told(error)
    return told(*file.findings)


def judge_index(raw: bytes) -> list[str]:
    """The code of the error in an index, if any."""
    try:
        parse_index(raw, file="f")
    except CheckpointError as error:
        return told(error)
    return []


VALUES: list[Any] = [
    *NUMBERS[:12], -1, 0.5, 2**40, 2**63, 1e999, float("nan"), True, False, None, "", "auto", "x", [], {},
    [0], [1, 2],
    [None], ["x"], {"a": 1}, {"0": {"head_dim": 0}}, [[1]], "full_attention", ["full_attention",
    "sliding_attention"],
]  # fmt: skip
KEYS = sorted({key.split(".")[0] for keys in ALIASES.values() for key in keys} | {
    "layer_types", "per_layer_config", "attention_other_setting", "compress_ratios", "compress_rates",
    "rope_scaling",
    "rope_parameters", "quantization_config", "kv_source_layer_ids", "kv_source_layers", "total_ut_steps",
    "loop_num_passes", "loop_layer_index_start", "loop_layer_index_end", "num_layers_per_stack",
    "n_recurrent_loops",
    "n_input_layers", "n_recurrent_layers", "partial_rotary_factors", "no_rope_layers",
    "dual_chunk_attention_config",
    "block_auto_adjust_ff_dim", "block_multiple_of", "num_mem_blocks", "qk_dim_factor", "v_dim_factor",
    "d_rel",
    "block_configs", "attention_types", "hybrid_override_pattern", "indexer_types", "transformers_version",
})  # fmt: skip
FAMILIES = [*sorted({name for family in TABLE for name in family.model_types}), "llama", "deepseek_v3", "x"]
LEAVES = [
    "self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight",
    "self_attn.o_proj.weight",
    "self_attn.q_norm.weight", "self_attn.k_norm.weight", "self_attn.kv_a_proj_with_mqa.weight",
    "self_attn.kv_b_proj.weight", "self_attn.A_log", "self_attn.conv1d.weight", "mamba.A_log",
    "mamba.out_proj.weight",
    "mamba.conv1d.weight", "mlp.experts.down_proj", "mlp.down_proj.weight", "mlp.up_proj.weight",
    "self_attn.k_proj.qweight", "self_attn.k_proj.scales", "self_attn.k_proj.qzeros",
    "self_attn.k_proj.weight_packed",
    "self_attn.k_proj.weight_scale", "self_attn.k_proj.trellis", "self_attn.k_proj._weight_qdata",
    "self_attn.k_proj._weight_scale", "self_attn.k_proj.codes", "self_attn.k_proj.codebooks",
    "self_attn.k_proj.B",
    "self_attn.k_proj.s", "self_attn.k_proj.q_weight", "self_attn.k_proj.q_scale",
    "self_attn.k_proj.q_invperm",
    "self_attn.indexer.wk.weight", "input_layernorm.weight", "self_attn.sinks", "shared_transf.q_proj.weight",
]  # fmt: skip


def checkpoint(rng: Random) -> bytes:
    """A config of some family and tensors of its blocks, values and shapes at random; as JSON,
    to be shown."""
    config: dict[str, Any] = {
        "model_type": rng.choice(FAMILIES), "num_hidden_layers": rng.choice([1, 2, 3]),
        "hidden_size": rng.choice([8, 64]),
        "num_attention_heads": rng.choice([1, 2, 8]), "vocab_size": 64, "architectures": ["XForCausalLM"],
    }  # fmt: skip
    for _ in range(rng.choice([0, 1, 1, 2, 3, 6])):
        config[rng.choice(KEYS)] = rng.choice(VALUES)
    if chance(rng, 0.2):
        config = {rng.choice(NESTING_KEYS): config, "tie_word_embeddings": rng.choice([True, False, None, 1])}
    tensors = {"model.embed_tokens.weight": ["BF16", [64, rng.choice([8, 64])]]} if chance(rng, 0.7) else {}
    for _ in range(rng.randint(0, 12)):
        shape = [
            rng.choice([0, 1, 2, 3, 4, 8, 16, 64, 128]) for _ in range(rng.choice([0, 1, 2, 2, 2, 3, 4]))
        ]
        name = f"model.layers.{rng.randint(0, 2)}.{rng.choice(LEAVES)}"
        tensors[name] = [
            rng.choice(["BF16", "F32", "U8", "I8", "I32", "U32", "I16", "I64", "F8_E4M3"]),
            shape,
        ]
    return json.dumps([config, tensors]).encode()


def opened(config: dict[str, Any], tensors: dict[str, tuple[str, list[int]]]) -> Checkpoint:
    """A checkpoint of this config and these dtypes and shapes by name."""
    table = TensorTable()
    file, at = table.add_file("model.safetensors"), 0
    for name, (dtype, shape) in tensors.items():
        size = prod(shape) * BITS[dtype] // 8
        table.append(name, dtype, tuple(shape), size, file, at)
        at += size
    return Checkpoint("f", None, "safetensors" if tensors else "config", (), table, config=config)


def judge_checkpoint(raw: bytes) -> list[str]:
    """The codes of the errors in what is derived, which must be fit for JSON."""
    try:
        found = inspect_checkpoint(opened(*json.loads(raw)))
        dumps(found)
        shape_of(found)
    except CheckpointError as error:
        return told(error)
    return told(*found.findings)


FORMATS: dict[str, tuple[Callable[[Random], bytes], Callable[[bytes], list[str]]]] = {
    "safetensors": (safetensors_file, judge_safetensors),
    "gguf": (gguf_file, judge_gguf),
    "index": (index_file, judge_index),
    "checkpoint": (checkpoint, judge_checkpoint),
}


def run(name: str, *, count: int, seed: int) -> Counter[str]:
    """How often each outcome came. Raises AssertionError, with the input, for any other exception."""
    make, judge = FORMATS[name]
    rng = Random(seed)
    outcomes: Counter[str] = Counter()
    for number in range(count):
        raw = make(rng)
        try:
            outcomes.update(judge(raw)[:1] or ["sound"])
        except Exception as error:
            raise AssertionError(f"{name} {number} of seed {seed}: {error!r} for {raw.hex()}") from error
    return outcomes


def main(count: int = 200_000, seed: int = 1) -> None:
    """Print the outcomes by format."""
    for name in FORMATS:
        began = time.perf_counter()
        outcomes = run(name, count=count, seed=seed)
        print(f"{name}: {count:,} files in {time.perf_counter() - began:.0f} s")
        for outcome, times in outcomes.most_common():
            print(f"  {times:8,}  {outcome}")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
