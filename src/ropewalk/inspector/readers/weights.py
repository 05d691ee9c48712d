"""Which of a folder's files are its weights, by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.errors import CheckpointError, CheckpointMissingError

GGUF_MAGIC = b"GGUF"
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
# transformers and llama.cpp (`llama_split_path`) number alike.
_NUMBERED = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.(?:safetensors|gguf)", re.ASCII)
_SLICE = re.compile(r"-TP-\d{3}\.safetensors$", re.ASCII)  # Grok-2
_PICKLE_STEMS = ("pytorch_model", "consolidated", "model", "adapter_model")
# Sets that other files make redundant: Mistral's own layout, and an adapter beside a whole model.
_SECONDARY = ("consolidated", "adapter_")


@dataclass(frozen=True, slots=True)
class Weights:
    """``used`` are read and counted; ``missing`` should be there by the numbers in the names."""

    used: tuple[str, ...]
    missing: tuple[str, ...] = ()


def is_weights(name: str) -> bool:
    """Whether it is a safetensors file of the checkpoint itself, not of a part in a subfolder."""
    return name.endswith(".safetensors") and "/" not in name


def choose_weights(names: Sequence[str]) -> Weights:
    """``model.safetensors``, else the numbered shards, else all other safetensors files.

    ``consolidated*`` and ``adapter_*`` count only where nothing else does: vLLM 0.33 loads the former with
    Mistral's load format alone, and an adapter is not the model.
    """
    files = sorted(filter(is_weights, names))
    if "model.safetensors" in files:
        return Weights(("model.safetensors",))
    for prefix in ("", *_SECONDARY):
        some = [name for name in files if _is_of(prefix, name)]
        if some:
            return _shards(some) or Weights(tuple(some))
    return Weights(())


def pickles(names: Sequence[str]) -> list[str]:
    """Weights in Python's pickle format, which is never opened."""
    return sorted(name for name in names if name.startswith(_PICKLE_STEMS) and name.endswith(PICKLE_SUFFIXES))


def part_names(name: str) -> list[str]:
    """The names of all parts of a split GGUF file; of an unsplit one its own."""
    match = _NUMBERED.fullmatch(name)
    if match is None or not 1 <= int(match[2]) <= int(match[3]):
        return [name]
    return [f"{match[1]}-{part:05d}-of-{match[3]}.gguf" for part in range(1, int(match[3]) + 1)]


def choose_gguf(names: Sequence[str], *, source: str, wanted: str | None = None) -> str | None:
    """The one GGUF model among these files, or None where safetensors files are there or no GGUF file is.

    A projector (``mmproj*``) counts only where it is alone. ``wanted`` is a file name or a part of one
    (``Q4_K_M``), or a folder, with a slash behind it, which counts only where GGUF files are in it. Raises
    :class:`CheckpointError` ``ambiguous_checkpoint`` where several are left, as in most repositories of
    quantised models, and ``checkpoint_missing`` where none is as wanted.
    """
    files = [name for name in sorted(names, reverse=True) if name.endswith(".gguf")]
    if wanted is not None and wanted.endswith("/"):
        below = [name for name in files if name.startswith(wanted)]
        files, names, wanted = (below, below, None) if below else (files, names, None)
    if wanted is not None:
        files = [wanted] if wanted in files else [name for name in files if wanted.lower() in name.lower()]
        if not files:
            raise CheckpointMissingError(f"{source}: no GGUF file of that name", where={"file": wanted})
    elif not files or any(map(is_weights, names)):
        return None
    choices = gguf_models(files)
    if len(choices) > 1:
        raise CheckpointError(
            f"{source} holds {len(choices)} GGUF models; name one of them: {', '.join(choices[:10])}",
            code="ambiguous_checkpoint", where={"file": source, "choices": choices[:100]},
        )  # fmt: skip
    return choices[0]


def gguf_models(names: Sequence[str]) -> list[str]:
    """The GGUF models among files, each by its first file; projectors only where nothing else is there."""
    models = one_of_each(names)
    return [name for name in models if not name.rpartition("/")[2].startswith("mmproj")] or models


def one_of_each(names: Sequence[str]) -> list[str]:
    """The GGUF models among files, each by its first file."""
    files = (name for name in sorted(names, reverse=True) if name.endswith(".gguf"))
    return sorted({_NUMBERED.sub(r"\1", name): name for name in files}.values())


def part_of(name: str) -> tuple[int, int]:
    """The number of a shard and of how many it is one, by its name; 1 of 1 for others."""
    match = _NUMBERED.fullmatch(name)
    return (int(match[2]), int(match[3])) if match else (1, 1)


def is_slice(name: str) -> bool:
    """Whether a file is by its name one rank's part of the tensors."""
    return _SLICE.search(name) is not None


def is_copy(name: str) -> bool:
    """Whether an unused file is by its name another copy of the same weights."""
    return name == "model.safetensors" or name.startswith("consolidated") or bool(_NUMBERED.fullmatch(name))


def _is_of(prefix: str, name: str) -> bool:
    return name.startswith(prefix) if prefix else not name.startswith(_SECONDARY)


def _shards(files: Sequence[str]) -> Weights | None:
    """The largest numbered set, ``model-*`` before others; None where no file is numbered."""
    sets: dict[tuple[str, int], dict[int, str]] = {}
    for name in files:
        if match := _NUMBERED.fullmatch(name):
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
