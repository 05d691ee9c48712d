"""Our verdict beside that of the formats' own readers, on the same damaged files.

What the reference refuses is an error here; what it takes is sound here, but for the differences named.
"""

from __future__ import annotations

import ctypes
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest
from benchmarks.fuzz import LISTED, gguf_file, judge_gguf, judge_safetensors, run, safetensors_file
from safetensors import SafetensorError, deserialize


def reference_takes(raw: bytes) -> bool:
    try:
        deserialize(raw)  # type: ignore[no-untyped-call]
    except SafetensorError:
        return False
    return True


@pytest.mark.parametrize("seed", range(4))
def test_safetensors(seed: int) -> None:
    """Stricter than safetensors 0.8.0 in two points: a name given twice, and an entry written as a list."""
    rng = Random(seed)
    verdicts = set()
    for _ in range(1000):
        raw = safetensors_file(rng)
        codes, taken = judge_safetensors(raw), reference_takes(raw)
        verdicts.add(taken)
        if taken and codes != ["duplicate_tensor_name"] and LISTED.encode() not in raw:
            assert codes == [], raw
        if not taken:
            assert codes, raw
    assert verdicts == {True, False}


class GgufInitParams(ctypes.Structure):
    """ggml/include/gguf.h, ``struct gguf_init_params``."""

    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p))


@pytest.fixture(scope="module")
def llama_cpp() -> ctypes.CDLL:
    """llama.cpp's library, as in the wheel of the embedded engine."""
    spec = find_spec("xllamacpp")
    if spec is None or spec.origin is None:
        pytest.skip("the embedded engine is not installed")
    (path,) = Path(spec.origin).parent.glob("*.so")
    library = ctypes.CDLL(str(path))
    library.gguf_init_from_file.restype = ctypes.c_void_p
    library.gguf_init_from_file.argtypes = [ctypes.c_char_p, GgufInitParams]
    library.gguf_free.argtypes = [ctypes.c_void_p]
    return library


@pytest.mark.parametrize("seed", range(4))
def test_gguf(seed: int, llama_cpp: ctypes.CDLL, tmp_path: Path) -> None:
    """Stricter than gguf.cpp b11549 in three points: names must be UTF-8, shapes must fit in a file, and the
    data must be there (which llama.cpp checks on loading it)."""
    rng = Random(seed)
    path = tmp_path / "m.gguf"
    verdicts = set()
    for _ in range(500):
        raw = gguf_file(rng)
        path.write_bytes(raw)
        context = llama_cpp.gguf_init_from_file(str(path).encode(), GgufInitParams(True, None))
        if context is not None:
            llama_cpp.gguf_free(context)
        codes = judge_gguf(raw)
        verdicts.add(context is not None)
        if context is None:
            assert codes, raw
        elif codes != ["gguf_malformed"]:
            assert codes in ([], ["truncated_payload"]), raw
    assert verdicts == {True, False}


@pytest.mark.parametrize(("name", "outcomes"), [("safetensors", 10), ("gguf", 9), ("index", 4)])
def test_nothing_but_records_and_our_errors(name: str, outcomes: int) -> None:
    """benchmarks/fuzz.py does the same with 200,000 files of each format."""
    assert len(run(name, count=2000, seed=11)) >= outcomes
