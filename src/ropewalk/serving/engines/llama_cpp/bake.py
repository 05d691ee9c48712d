"""Writes a rope scaling into the header of a copy of a GGUF file, for engines that take no rope flags.

The keys are those that llama.cpp's own converter writes (gguf-py constants.py, ``{arch}.rope.scaling.*``);
the copy serves with them as the file does with ``--rope-scaling yarn`` and its two companions. Tensors are
copied byte for byte; the original is only read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from struct import pack

from ropewalk.engines import LLAMA_SERVER
from ropewalk.errors import EngineError, UsageError
from ropewalk.findings import Finding
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.inspector.readers.gguf import GgufFile, HeaderLayout
from ropewalk.inspector.readers.ggufset import read_gguf_file
from ropewalk.inspector.readers.weights import part_names
from ropewalk.inspector.records import Inspection
from ropewalk.inspector.rope_blocks import is_nested
from ropewalk.planner.records import RopeDecision
from ropewalk.planner.rope.decision import decide_rope
from ropewalk.serving.engines.llama_cpp.gguf_override import require_room
from ropewalk.units import MIB, format_tokens

_CHUNK_BYTES = 16 * MIB
_UINT32, _FLOAT32, _STRING = 4, 6, 8  # ggml/docs/gguf.md, gguf_metadata_value_type
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Baked:
    """A copy and what was written into its header; ``keys`` by their full names."""

    source: str
    output: str
    context_len: int
    rope: RopeDecision
    keys: dict[str, int | float | str]
    findings: tuple[Finding, ...]
    schema: str = "ropewalk.bake/1"


def bake(
    inspection: Inspection,
    output: Path,
    *,
    context_len: int,
    arm: str = "auto",
    allow_unvalidated: bool = False,
    on_progress: Progress = lambda done, total: None,
) -> Baked:
    """A copy of a GGUF file that reaches ``context_len`` tokens without flags.

    ``arm`` and ``allow_unvalidated`` are those of a plan. The copy is read back and held against the original
    before it gets its name. Raises :class:`UsageError` where there is nothing to bake, it is refused, or
    ``output`` exists, and :class:`EngineError` (``disk_full``) where there is no room.
    """
    source = _source_of(inspection, output)
    advice = decide_rope(
        inspection,
        context_len=context_len,
        engine=LLAMA_SERVER.name,
        arm=arm,
        allow_unvalidated=allow_unvalidated,
    )
    rope = advice.decision
    if rope.decision == "refuse":
        raise UsageError(rope.reason, code="plan_refused", where={"context_len": context_len})
    if rope.decision != "scale" or is_nested(inspection.value("rope_parameters") or {}):
        raise UsageError(
            f"there is nothing to bake for {format_tokens(context_len)} tokens: {_why_not(rope)}",
            where={"context_len": context_len, "decision": rope.decision},
        )
    file = read_gguf_file(source)
    arch = str(file.keys["general.architecture"])
    keys = _keys(arch, rope)
    part = output.with_name(output.name + ".part")
    require_room(output.parent, source)
    try:
        write_with(source, part, file, keys, drop=f"{arch}.rope.scaling.", on_progress=on_progress)
        _verify(file, part, keys)
        os.replace(part, output)
    except OSError as error:
        raise EngineError(
            f"{output} cannot be written: {error.strerror}", code="bake_failed", where={"output": str(output)}
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return Baked(str(source), str(output), int(keys[f"{arch}.context_length"]), rope, keys, advice.findings)


def write_with(
    source: Path,
    copy: Path,
    file: GgufFile,
    keys: dict[str, int | float | str],
    *,
    drop: str,
    on_progress: Progress = lambda done, total: None,
) -> None:
    """Write ``source`` to ``copy`` with these keys in place of those of the same name, and without others
    that start with ``drop``. Whole numbers are written as uint32, others as float32."""
    layout = file.layout
    kept = [span for key, span in layout.keys.items() if key not in keys and not key.startswith(drop)]
    with source.open("rb") as old, copy.open("xb") as new:
        new.write(old.read(16)[:16])  # magic, version, number of tensors
        new.write(pack(f"{layout.order}Q", len(kept) + len(keys)))
        for start, end in kept:
            old.seek(start)
            new.write(old.read(end - start))
        new.writelines(_record(key, value, layout) for key, value in keys.items())
        old.seek(layout.keys_end)
        new.write(old.read(layout.tensors_end - layout.keys_end))
        new.write(bytes(-new.tell() % layout.alignment))
        old.seek(_data_start(layout))
        total, done = file.file_bytes - old.tell(), 0
        while chunk := old.read(_CHUNK_BYTES):
            new.write(chunk)
            done += len(chunk)
            on_progress(done, total)


def _record(key: str, value: int | float | str, layout: HeaderLayout) -> bytes:
    order, name = layout.order, key.encode()
    start = pack(f"{order}Q", len(name)) + name
    if isinstance(value, str):
        text = value.encode()
        return start + pack(f"{order}IQ", _STRING, len(text)) + text
    if isinstance(value, int):
        return start + pack(f"{order}II", _UINT32, value)
    return start + pack(f"{order}If", _FLOAT32, value)


def _data_start(layout: HeaderLayout) -> int:
    return -(-layout.tensors_end // layout.alignment) * layout.alignment


def _keys(arch: str, rope: RopeDecision) -> dict[str, int | float | str]:
    """The factor is that of the flags, which is large enough for the last token in single precision."""
    flags = dict(zip(rope.llama_server_flags[::2], rope.llama_server_flags[1::2], strict=True))
    factor, original = float(flags["--rope-scale"]), int(flags["--yarn-orig-ctx"])
    return {
        f"{arch}.context_length": int(original * factor),
        f"{arch}.rope.scaling.type": "yarn",
        f"{arch}.rope.scaling.factor": factor,
        f"{arch}.rope.scaling.original_context_length": original,
    }


def _source_of(inspection: Inspection, output: Path) -> Path:
    summary = inspection.checkpoint
    source = Path(summary.source)
    if summary.format != "gguf" or not source.is_file():
        raise UsageError(
            "only a GGUF file on this machine can be baked", where={"checkpoint": summary.source}
        )
    if len(part_names(source.name)) > 1:
        raise UsageError(
            "a split model is joined first: llama-gguf-split --merge", where={"checkpoint": summary.source}
        )
    if output.exists():
        raise UsageError(f"{output} is there already, and is not written over", where={"output": str(output)})
    return source


def _why_not(rope: RopeDecision) -> str:
    if rope.decision == "scale":
        return "layers that rotate differently need flags, which scale only some of them"
    return rope.reason


def _verify(before: GgufFile, copy: Path, keys: dict[str, int | float | str]) -> None:
    """Read the copy back: the same tensors at the same places, the same keys but for those written."""
    after = read_gguf_file(copy)
    drop = f"{before.keys['general.architecture']}.rope.scaling."
    expected = {key: value for key, value in before.keys.items() if not key.startswith(drop)} | keys
    said = {key: _rounded(value, keys.get(key)) for key, value in after.keys.items()}
    data = (before.file_bytes - _data_start(before.layout), after.file_bytes - _data_start(after.layout))
    block = inspect_checkpoint(open_checkpoint(copy)).value("rope_parameters") or {}
    same = said == expected and after.columns == before.columns and data[0] == data[1]
    if not same or block.get("rope_type") != "yarn":
        raise EngineError(
            f"{copy} does not read back as it was written", code="bake_failed", where={"output": str(copy)}
        )


def _rounded(value: object, written: object) -> object:
    """A float32 as the number that was written, where it is the nearest to it."""
    if isinstance(written, float) and pack("f", written) == pack("f", value):
        return written
    return value
