"""Which engines read a checkpoint: its format and quantisation held against the registry of engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from ropewalk.engines import REGISTRY, reading_of
from ropewalk.inspector.readers.ggml_types import GGML_TYPES
from ropewalk.inspector.records import Fact, Format

_KNOWN_TYPES = frozenset(kind.name for kind in GGML_TYPES.values())


def read_by(stored_as: Format, dtypes: Iterable[str], quantization: Fact) -> Fact:
    """Of every engine ``{"engine", "version", "reads", "reason"}``; ``reads`` is None where it is not known.

    ``dtypes`` are those of the tensors. A config without weights counts as safetensors.
    """
    method = quantization.value.get("method") if isinstance(quantization.value, Mapping) else None
    if method is None and quantization.value is not None:
        method = "an unnamed method"
    unknown = sorted(set(dtypes) - _KNOWN_TYPES) if stored_as == "gguf" else []
    found = [
        asdict(reading_of(engine, stored_as, method=method, unknown_type=unknown[0] if unknown else None))
        for engine in REGISTRY.values()
    ]
    return Fact(found, "derived", "format and quantisation, by the registry of engines")
