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
from ropewalk.inspector.readers.cursor import Cursor
from ropewalk.inspector.readers.dtypes import BITS
from ropewalk.inspector.readers.ggml_types import GGML_TYPES
from ropewalk.inspector.readers.gguf import parse_gguf
from ropewalk.inspector.readers.index import parse_index
from ropewalk.inspector.readers.safetensors import SNIFF_BYTES, HeaderReader, header_length
from ropewalk.jsonio import dumps

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


FORMATS: dict[str, tuple[Callable[[Random], bytes], Callable[[bytes], list[str]]]] = {
    "safetensors": (safetensors_file, judge_safetensors),
    "gguf": (gguf_file, judge_gguf),
    "index": (index_file, judge_index),
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
