"""Which stack of blocks is the language model, what belongs to MTP heads, what to towers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from ropewalk.inspector.derive.names import Names, Row, Stack

Tower = Literal["vision", "audio", "encoder", "projector"]

# Path components of parts beside the language model, and of the encoder half of an encoder-decoder.
_TOWERS: tuple[tuple[Tower, re.Pattern[str]], ...] = (
    ("audio", re.compile(r"(?:^|\.)(?:audio\w*|speech\w*|talker|token2wav|code2wav|embed_audio|a)(?:\.|$)")),
    (
        "projector",
        re.compile(
            r"(?:^|\.)(?:multi_modal_projector|\w*projector\w*|mm|mm_\w+|connector\w*|aligner|resampler|\w*qformer"
            r"|patch_merger|embed_vision|image_newline|view_seperator)(?:\.|$)"
        ),
    ),
    (
        "vision",
        re.compile(
            r"(?:^|\.)(?:vision\w*|visual\w*|\w*vit|image\w*|siglip\w*|sam_model|qwen2_model|\w*_tower\w*"
            r"|merger|v)(?:\.|$)"
        ),
    ),
    ("encoder", re.compile(r"(?:^|\.)(?:encoder|enc)(?:\.|$)")),
)
_ANY_TOWER = re.compile("|".join(pattern.pattern for _, pattern in _TOWERS))
_MTP = re.compile(r"(?:^|\.)mtp\w*(?:\.|$)")
_MTP_BLOCK = re.compile(r"^(?:eh_proj|enorm|hnorm|nextn\.|shared_head\.|mtp\w*\.|embed_tokens\.)")
_EMBEDDING = re.compile(
    r"(?:^|\.)(?:embed_tokens|wte|tok_embeddings|word_embeddings|embed_in|token_embd|shared|embeddings"
    r"|emb|embed|embed_tokens_per_layer|per_layer_token_embd)(?:\.(?:weight|embedding|new_embedding))?(?:[._]\w+)?$"
)
_HEAD = re.compile(
    r"^(?:\w+\.)?(?:\w*lm_head(?!\.(?:dense|layer_norm)\.)|embed_out|output|output_layer|transformer\.ff_out)\.|^head\.weight$"
    r"|(?:^|\.)(?:cls\.predictions\.decoder|decoder\.output_projection)\.(?:weight|bias)$"
    r"|^(?:proj_out|decoder)\.weight$"
)


@dataclass(slots=True)
class Places:
    """The rows of a checkpoint by place, every row in exactly one; blocks keep their rows together."""

    prefix: str = ""
    layers: dict[int, list[Row]] = field(default_factory=dict)
    embedding: list[Row] = field(default_factory=list)
    output_head: list[Row] = field(default_factory=list)
    other: list[Row] = field(default_factory=list)
    mtp_blocks: list[list[Row]] = field(default_factory=list)
    mtp: list[Row] = field(default_factory=list)
    towers: dict[Tower, list[list[Row]]] = field(default_factory=dict)

    def tower_rows(self) -> Iterator[Row]:
        """Rows of the tensor table that belong to towers (vision, audio)."""
        for blocks in self.towers.values():
            for rows in blocks:
                yield from rows

    def mtp_rows(self) -> Iterator[Row]:
        """The rows of all multi-token-prediction heads."""
        yield from self.mtp
        for rows in self.mtp_blocks:
            yield from rows


def place(names: Names, *, num_hidden_layers: int | None, mtp_layers: int | None) -> Places:
    """Sort rows into places.

    The stated numbers of layers and of MTP blocks tell apart MTP blocks that are numbered on after the
    last layer, where their own tensors do not.
    """
    places = Places()
    main = _main_stack(names)
    for stack in names.stacks.values():
        if stack is main:
            places.prefix = stack.prefix
            _place_layers(stack, places, num_hidden_layers, mtp_layers or 0)
        elif _MTP.search(stack.prefix):
            places.mtp_blocks.extend(stack.blocks.values())
        elif (tower := tower_of(stack.prefix)) is not None:
            places.towers.setdefault(tower, []).extend(stack.blocks.values())
        else:
            for rows in stack.blocks.values():
                places.other.extend(rows)
    for row in names.loose:
        _place_loose(row, places)
    return places


def tower_of(name: str) -> Tower | None:
    """The tower that a name or prefix belongs to; None for the language model's own."""
    if not _ANY_TOWER.search(name):
        return None
    return next((tower for tower, pattern in _TOWERS if pattern.search(name)), None)


def is_embedding(name: str) -> bool:
    """Whether a name is that of a token embedding."""
    return _EMBEDDING.search(name) is not None


def _main_stack(names: Names) -> Stack | None:
    """The largest stack outside of towers; an encoder where there is no other, a tower as the last resort."""

    def rank(stack: Stack) -> tuple[int, int]:
        tower = tower_of(stack.prefix)
        if _MTP.search(stack.prefix):
            return 0, stack.nbytes
        return (2 if tower is None else 1 if tower == "encoder" else 0), stack.nbytes

    return max(names.stacks.values(), key=rank, default=None)


def _place_layers(stack: Stack, places: Places, num_hidden_layers: int | None, mtp_layers: int) -> None:
    last = max(stack.blocks, default=-1) + 1
    as_declared = num_hidden_layers is not None and last == num_hidden_layers + mtp_layers
    for number, rows in stack.blocks.items():
        surplus = num_hidden_layers is None or number >= num_hidden_layers
        is_mtp = surplus and any(_MTP_BLOCK.match(row.name) for row in rows)
        if is_mtp or (surplus and as_declared):
            places.mtp_blocks.append(rows)
        else:
            places.layers[number] = rows


def _place_loose(row: Row, places: Places) -> None:
    tower = tower_of(row.name)
    if tower is not None and tower == tower_of(places.prefix):
        tower = None  # the model is an encoder
    if _MTP.search(row.name):
        places.mtp.append(row)
    elif tower is not None:
        places.towers.setdefault(tower, []).append([row])
    elif _HEAD.match(row.name):
        places.output_head.append(row)
    elif is_embedding(row.name):
        places.embedding.append(row)
    else:
        places.other.append(row)
