"""Whether an engine reads a checkpoint's format, and how to get there where it does not."""

from __future__ import annotations

from pathlib import PurePath

from ropewalk.engines import engine_for, engine_of
from ropewalk.findings import Finding
from ropewalk.inspector.records import Inspection


def format_finding(inspection: Inspection, engine_name: str) -> Finding | None:
    """``format_not_read`` where the engine is served and reads no such weights; a bare config may become
    either."""
    engine, found = engine_of(engine_name), inspection.checkpoint.format
    if not engine.is_served or found == "config" or engine.reads(found):
        return None
    source = inspection.checkpoint.source
    how = how_to_convert(source) if found == "safetensors" else ""
    other = engine_for(found)
    return Finding(
        "format_not_read",
        "error",
        f"{engine.title} reads {' and '.join(engine.formats)}, not {found}: {how}use --engine {other}",
        {"field": "engine", "engine": engine.name, "format": found, "reads": list(engine.formats)},
    )


def how_to_convert(folder: str) -> str:
    """What makes a GGUF of a folder of safetensors."""
    name = PurePath(folder).name or "model"
    target = PurePath(folder) / f"{name}-bf16.gguf"
    return (
        "convert it with llama.cpp's "
        f"`python convert_hf_to_gguf.py {folder} --outtype bf16 --outfile {target}`, or "
    )
