"""Logical parameters by place: what a model card counts, from the shapes alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ropewalk.inspector.derive.evidence import BlockEvidence
from ropewalk.inspector.derive.names import Row
from ropewalk.inspector.derive.packing import PackingHint, Weight, unpack
from ropewalk.inspector.derive.places import Places, Tower, is_embedding
from ropewalk.inspector.tensors import Shape

PAD_ROWS = 1024  # vocabularies are padded to multiples of up to this many rows


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters by place, tied tensors once; None where a packing is unknown.

    ``experts`` are the routed experts among ``layers``; ``duplicates`` were stored but not counted.
    """

    embedding: int | None
    output_head: int | None
    layers: int | None
    experts: int | None
    other: int | None
    mtp: int | None
    towers: Mapping[Tower, int | None] = field(default_factory=dict)
    duplicates: int = 0

    @property
    def total(self) -> int | None:
        """Everything that is stored, tied tensors once."""
        return _sum(
            (self.embedding, self.output_head, self.layers, self.other, self.mtp, *self.towers.values())
        )

    def active(self, num_experts: int | None, num_experts_per_tok: int | None) -> int | None:
        """Parameters of the language model that one token meets: all but the experts not chosen for it."""
        whole = _sum((self.embedding, self.output_head, self.layers, self.other))
        if whole is None or not self.experts:
            return whole
        if not num_experts or not num_experts_per_tok:
            return None
        return whole - self.experts + self.experts * num_experts_per_tok // num_experts


def count_parameters(
    places: Places,
    evidence: Mapping[int, BlockEvidence],
    hint: PackingHint,
    *,
    tied: bool,
    tables: int = 1,
    shared: int = 0,
) -> Parameters:
    """Count by place. ``tied`` says that the head and the embedding are one matrix, however often stored.

    ``tables`` is how many token embeddings there are, one for both halves of an encoder-decoder or two.
    ``shared`` is how many transformers all blocks share (Zamba): what is stored of them more often is a copy.
    """
    blocks = list(_block_weights(evidence, shared))
    head = unpack(places.output_head, hint)
    embedding, copies = _without_copies(unpack(places.embedding, hint))
    duplicates = _total(copies) or 0
    if tied and head and embedding:
        copies = [weight for weight in head if any(_is_copy_of(weight, table) for table in embedding)]
        duplicates += _total(copies) or 0
        head = [weight for weight in head if weight not in copies]
    return Parameters(
        embedding=_total(embedding),
        output_head=_total(head),
        layers=_total(blocks),
        experts=_total([weight for weight in blocks if is_routed_expert(weight.name, weight.shape)]),
        other=_total(unpack(places.other, hint)),
        mtp=_sum([_total(unpack(places.mtp, hint)), *_each(places.mtp_blocks, hint)]),
        towers={
            tower: _sum(_each(_without_table(blocks, embedding, tied=tied and tables == 1), hint))
            for tower, blocks in places.towers.items()
        },
        duplicates=duplicates,
    )


def _block_weights(evidence: Mapping[int, BlockEvidence], shared: int) -> Iterator[Weight]:
    """The weights of all blocks; those of shared transformers as often as there are different ones."""
    seen: Counter[str] = Counter()
    for block in evidence.values():
        for weight in block.weights:
            if shared and weight.name.startswith("shared_transf"):
                seen[weight.name] += 1
                if seen[weight.name] > shared:
                    continue
            yield weight


def _without_table(
    blocks: Iterable[Sequence[Row]], embedding: Sequence[Weight], *, tied: bool
) -> Iterator[Sequence[Row]]:
    """The rows of a tower without a copy of the token embedding, as encoder-decoders store it per half."""
    shapes = {weight.shape for weight in embedding if len(weight.shape) == 2} if tied else set[Shape]()
    for rows in blocks:
        yield [row for row in rows if not (row.shape in shapes and is_embedding(row.name))]


def _is_copy_of(weight: Weight, table: Weight) -> bool:
    """Whether a matrix of the head is the table; ``lm_head.dense`` of BERT and its kin is not."""
    if len(weight.shape) != 2 or len(table.shape) != 2 or weight.shape[1] != table.shape[1]:
        return False
    return abs(weight.shape[0] - table.shape[0]) < PAD_ROWS


def is_routed_expert(name: str, shape: Shape) -> bool:
    """Whether a weight is one of the experts that a router chooses from: numbered or stacked ones."""
    lower = name.lower()
    if "shared" in lower or "_shexp" in lower:
        return False
    if "experts." in lower or "_exps" in lower or ".*" in lower:
        return True
    return "moe." in lower and len(shape) > 2  # granite: block_sparse_moe.input_linear [E, out, in]


def _without_copies(weights: Sequence[Weight]) -> tuple[list[Weight], list[Weight]]:
    """Token embeddings and the copies of them that encoder-decoders store per half."""
    seen: set[Shape] = set()
    kept: list[Weight] = []
    copies: list[Weight] = []
    for weight in sorted(weights, key=lambda weight: "shared" not in weight.name):
        is_copy = weight.shape in seen and len(weight.shape) > 1
        seen.add(weight.shape)
        (copies if is_copy else kept).append(weight)
    return kept, copies


def _each(blocks: Iterable[Sequence[Row]], hint: PackingHint) -> list[int | None]:
    return [_total(unpack(rows, hint)) for rows in blocks]


def _total(weights: Iterable[Weight]) -> int | None:
    return _sum(weight.total for weight in weights)


def _sum(parts: Iterable[int | None]) -> int | None:
    """A sum in which one unknown part makes the whole unknown."""
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total
