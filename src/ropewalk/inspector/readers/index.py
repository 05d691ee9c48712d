"""The index of a sharded checkpoint: which shard holds which tensor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.errors import CheckpointError
from ropewalk.inspector.readers.jsonfile import parse_object
from ropewalk.inspector.readers.store import is_plain
from ropewalk.inspector.tensors import too_large
from ropewalk.inspector.wording import MAX_NAMED, clip
from ropewalk.limits import MAX_FILES, MAX_TENSORS

_SUFFIX = ".safetensors.index.json"
_USUAL = "model.safetensors.index.json"
_OPENING = b'"weight_map": {'
_BLOCK_BYTES = 64 * 1024
_Shards = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Index:
    """``shards`` maps each file to the tensors that it should hold; ``total_bytes`` is as declared."""

    file: str
    shards: dict[str, list[str]]
    total_bytes: int | None


def find_index(names: Sequence[str]) -> str | None:
    """The index that counts among these files; None where there is none or a lone ``model.safetensors``.

    transformers' own name wins, and ``model.safetensors`` before an index of another set
    (``consolidated.safetensors.index.json``, which engines read in Mistral's format only).
    """
    if _USUAL in names:
        return _USUAL
    if "model.safetensors" in names:
        return None
    found = sorted(name for name in names if name.endswith(_SUFFIX))
    return min(found, key=lambda name: name.startswith("consolidated"), default=None)


def parse_index(raw: bytes, *, file: str) -> Index:
    """Decode an index. Raises ``index_malformed``, ``unsafe_path`` or ``pickle_only``."""
    if (pairs := raw.count(b":")) > MAX_TENSORS + MAX_NAMED:  # with the metadata's
        raise too_large(file, "tensors", pairs, MAX_TENSORS)
    by_line = _read_lines(raw, file=file)
    shards, metadata = by_line if by_line is not None else _read_json(raw, file=file)
    if len(shards) > MAX_FILES:
        raise too_large(file, "shards", len(shards), MAX_FILES)
    for shard in shards:
        _check_name(shard, file=file)
    return Index(file, dict(sorted(shards.items())), _total(metadata))


def _read_json(raw: bytes, *, file: str) -> tuple[_Shards, object]:
    """Shards and metadata of an index in any layout."""
    data = parse_object(raw, file=file, code="index_malformed")
    weight_map = data.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise _malformed(file, "it has no weight_map")
    shards: _Shards = defaultdict(list)
    try:
        for tensor, shard in weight_map.items():
            shards[shard].append(tensor)
    except TypeError:  # a list or object in the place of a name
        raise _malformed(file, f"the shard of {clip(tensor)} is no name") from None
    return shards, data.get("metadata")


def _read_lines(raw: bytes, *, file: str) -> tuple[_Shards, object] | None:
    """The same for the layout of transformers and huggingface_hub: the weight_map last, a pair to a line.

    92,000 pairs take half the time and a third of the memory that a JSON decoder takes. None for any other
    layout, and for what JSON has to judge: escapes, other letters than ASCII's, a name given twice.
    """
    head, opening, _ = raw.partition(_OPENING)
    if not opening or b"\\" in raw or not raw.isascii():
        return None
    shards: _Shards = defaultdict(list)
    at, num_pairs = len(head) + len(opening), 0
    while at < len(raw):
        stop = len(raw) if len(raw) - at <= _BLOCK_BYTES else raw.rfind(b"\n", at, at + _BLOCK_BYTES)
        pieces = raw[at:stop].decode("ascii").split('"')  # space, name, ": ", shard, comma, name, ...
        if not _is_pairs(pieces, last=stop == len(raw)):
            return None
        for tensor, shard in zip(pieces[1::4], pieces[3::4], strict=True):
            shards[shard].append(tensor)
        at, num_pairs = stop, num_pairs + len(pieces) // 4
    if len(set().union(*shards.values())) < num_pairs:
        return None
    return shards, parse_object(head + b'"": 0}', file=file, code="index_malformed").get("metadata")


def _is_pairs(pieces: Sequence[str], *, last: bool) -> bool:
    """Whether text cut at its quotes is ``"name": "shard",`` again and again, and ends where it should."""
    return (
        len(pieces) % 4 == 1
        and not pieces[0].strip()
        and set(pieces[2::4]) == {": "}
        and {comma.strip() for comma in set(pieces[4:-1:4])} <= {","}
        and "".join(pieces[-1].split()) == ("}}" if last else ",")
    )


def _check_name(shard: object, *, file: str) -> None:
    if not isinstance(shard, str):
        raise _malformed(file, f"{clip(shard)!r} is no file name")
    if not is_plain(shard):
        raise CheckpointError(
            f"{file} names the shard {clip(shard)!r}, outside the folder of the checkpoint",
            code="unsafe_path", where={"file": file, "shard": clip(shard)},
        )  # fmt: skip
    if not shard.endswith(".safetensors"):
        raise CheckpointError(
            f"{file} names {clip(shard)!r}; only safetensors shards are read, a pickle is never opened",
            code="pickle_only", where={"file": file, "shard": clip(shard)},
        )  # fmt: skip


def _total(metadata: object) -> int | None:
    """``total_size`` as an integer; some writers store a float, some nothing."""
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(size, float) and size.is_integer():
        return int(size)
    return size if type(size) is int else None


def _malformed(file: str, reason: str) -> CheckpointError:
    return CheckpointError(
        f"{file} is no index of a checkpoint: {reason}",
        code="index_malformed", where={"file": file, "reason": reason},
    )  # fmt: skip
