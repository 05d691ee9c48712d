"""Which stack of blocks is the language model, what belongs to MTP heads, what to towers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ropewalk.inspector.names import Names, Row, Stack

# Path components of vision and audio parts, and of the encoder half of an encoder-decoder.
_TOWER = re.compile(
    r"(?:^|\.)(?:vision\w*|visual\w*|\w*vit|audio\w*|speech\w*|image\w*|siglip\w*|sam_model|qwen2_model"
    r"|multi_modal_projector|\w*projector\w*|mm|mm_\w+|\w*_tower\w*|connector\w*|merger|aligner|resampler"
    r"|embed_vision|embed_audio|talker|token2wav|code2wav|patch_merger|[va]|encoder)(?:\.|$)"
)
_MTP = re.compile(r"(?:^|\.)mtp\w*\.")
_MTP_BLOCK = re.compile(r"^(?:eh_proj|enorm|hnorm|nextn\.|shared_head\.|mtp\w*\.|embed_tokens\.)")
_EMBEDDING = re.compile(
    r"(?:^|\.)(?:embed_tokens|wte|tok_embeddings|word_embeddings|embed_in|token_embd|shared|embeddings"
    r"|embedding\.word_embeddings|wte\.embedding|embd)(?:\.weight|\.embedding)?(?:[._]\w+)?$"
)
_HEAD = re.compile(r"^(?:\w+\.)?(?:lm_head|embed_out|output|output_layer|transformer\.ff_out|cls_head)\.")


@dataclass(slots=True)
class Places:
    """The rows of a checkpoint by place; every row is in exactly one."""

    prefix: str = ""
    layers: dict[int, list[Row]] = field(default_factory=dict)
    embedding: list[Row] = field(default_factory=list)
    output_head: list[Row] = field(default_factory=list)
    other: list[Row] = field(default_factory=list)
    mtp_layers: dict[str, list[Row]] = field(default_factory=dict)
    mtp: list[Row] = field(default_factory=list)
    towers: list[Row] = field(default_factory=list)


def place(names: Names, *, num_hidden_layers: int | None) -> Places:
    """Sort rows into places. ``num_hidden_layers`` is what the config states, used for MTP blocks only."""
    places = Places()
    main = _main_stack(names)
    for stack in names.stacks.values():
        if stack is main:
            places.prefix = stack.prefix
            _place_blocks(stack, places, num_hidden_layers)
        elif _MTP.search(stack.prefix):
            for number, rows in stack.blocks.items():
                places.mtp_layers[f"{stack.prefix}{number}"] = rows
        else:
            target = places.towers if _TOWER.search(stack.prefix) else places.other
            for rows in stack.blocks.values():
                target.extend(rows)
    for row in names.loose:
        _place_loose(row, places)
    return places


def _main_stack(names: Names) -> Stack | None:
    """The largest stack outside of towers and MTP heads; a tower only where there is nothing else."""

    def rank(stack: Stack) -> tuple[bool, int]:
        apart = bool(_TOWER.search(stack.prefix) or _MTP.search(stack.prefix))
        return not apart, stack.nbytes

    return max(names.stacks.values(), key=rank, default=None)


def _place_blocks(stack: Stack, places: Places, num_hidden_layers: int | None) -> None:
    for number, rows in stack.blocks.items():
        surplus = num_hidden_layers is not None and number >= num_hidden_layers
        if any(_MTP_BLOCK.match(row.name) for row in rows) and (surplus or num_hidden_layers is None):
            places.mtp_layers[f"{stack.prefix}{number}"] = rows
        else:
            places.layers[number] = rows


def _place_loose(row: Row, places: Places) -> None:
    if _MTP.search(row.name):
        places.mtp.append(row)
    elif _HEAD.match(row.name):
        places.output_head.append(row)
    elif _TOWER.search(row.name):
        places.towers.append(row)
    elif _EMBEDDING.search(row.name):
        places.embedding.append(row)
    else:
        places.other.append(row)
