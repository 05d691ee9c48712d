"""Which of a folder's files are its weights, where no index says so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.safetensors")
_PICKLE = re.compile(r"(?:pytorch_model|consolidated|model|adapter_model|tf_model).*\.(?:bin|pt|pth|ckpt)")
# Sets that other files make redundant: Mistral's own layout, and an adapter beside a whole model.
_SECONDARY = ("consolidated", "adapter_")


@dataclass(frozen=True, slots=True)
class Weights:
    """``used`` are read and counted; ``missing`` should be there by the numbers in the names."""

    used: tuple[str, ...]
    missing: tuple[str, ...] = ()


def choose_weights(names: Sequence[str]) -> Weights:
    """``model.safetensors``, else the numbered shards, else all other safetensors files.

    ``consolidated*`` and ``adapter_*`` count only where nothing else does: vLLM 0.33 loads the former with
    Mistral's load format alone, and an adapter is not the model.
    """
    files = sorted(name for name in names if name.endswith(".safetensors"))
    if "model.safetensors" in files:
        return Weights(("model.safetensors",))
    for prefix in ("", *_SECONDARY):
        some = [name for name in files if _is_of(prefix, name)]
        if some:
            return _shards(some) or Weights(tuple(some))
    return Weights(())


def pickles(names: Sequence[str]) -> list[str]:
    """Weights in Python's pickle format, which is never opened."""
    return sorted(name for name in names if _PICKLE.fullmatch(name))


def is_copy(name: str) -> bool:
    """Whether an unused file is by its name another copy of the same weights."""
    return name == "model.safetensors" or name.startswith("consolidated") or bool(_SHARD.fullmatch(name))


def _is_of(prefix: str, name: str) -> bool:
    return name.startswith(prefix) if prefix else not name.startswith(_SECONDARY)


def _shards(files: Sequence[str]) -> Weights | None:
    """The largest numbered set, ``model-*`` before others; None where no file is numbered."""
    sets: dict[tuple[str, int], dict[int, str]] = {}
    for name in files:
        if match := _SHARD.fullmatch(name):
            sets.setdefault((match[1], int(match[3])), {})[int(match[2])] = name
    if not sets:
        return None
    prefix, total = max(sets, key=lambda key: (key[0] == "model", len(sets[key])))
    present = sets[prefix, total]
    missing = [
        f"{prefix}-{number:05d}-of-{total:05d}.safetensors"
        for number in range(1, total + 1)
        if number not in present
    ]
    return Weights(tuple(present[number] for number in sorted(present)), tuple(missing))
