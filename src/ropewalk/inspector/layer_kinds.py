"""What layers keep for the tokens they have seen: one record per kind, and each prices itself.

A record stands for all layers that keep the same; ``indices`` says which. The JSON of every kind has the
same keys, null for what a kind does not have. Engines' rounding, padding and splitting are not here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, ClassVar, Literal, Protocol, Self

LayerKind = Literal["full", "sliding", "chunked", "latent", "recurrent", "cross", "shared", "none"]


class RowType(Protocol):
    """How an engine stores a row of keys or values."""

    def row_bytes(self, num_heads: int, head_dim: int) -> int:
        """Bytes of one token's keys (or values) in one layer."""


@dataclass(frozen=True, slots=True)
class StateTensor:
    """A tensor of constant size that a layer keeps per sequence (``conv``, ``ssm``, ...)."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers that keep the same things, by ``indices``: the base of all kinds, which keeps nothing.

    The decoder of an encoder-decoder keeps two things per block, so its blocks are in a ``full`` group
    and in a ``cross`` group as well; where a block keeps several caches (LongCat's two attentions, one per
    pass of a looped model) its groups are listed as often.
    """

    indices: tuple[int, ...] = ()

    record_fields: ClassVar[tuple[str, ...]] = (
        "kind", "count", "indices", "num_attention_heads", "num_key_value_heads", "head_dim_k", "head_dim_v",
        "window", "state", "rotary", "indexer_head_dim", "compress_ratio",
    )  # fmt: skip

    @property
    def kind(self) -> LayerKind:
        """The ``kind`` of this layer in ``ropewalk.inspection/1``."""
        raise NotImplementedError

    @property
    def count(self) -> int:
        """How many layers there are."""
        return len(self.indices)

    @property
    def num_attention_heads(self) -> int | None:
        """Query heads; None where unknown or where there are none."""
        return None

    @property
    def num_key_value_heads(self) -> int | None:
        """Heads that keys and values are kept for."""
        return None

    @property
    def head_dim_k(self) -> int | None:
        """Elements of one key of one head."""
        return None

    @property
    def head_dim_v(self) -> int | None:
        """Elements of one value of one head."""
        return None

    @property
    def window(self) -> int | None:
        """Width of a sliding window or chunk in tokens."""
        return None

    @property
    def state(self) -> tuple[StateTensor, ...]:
        """Tensors of constant size per sequence; some layers keep them beside keys and values."""
        return ()

    @property
    def rotary(self) -> bool | None:
        """Whether the heads rotate; False marks NoPE layers, None those without heads."""
        return None

    @property
    def indexer_head_dim(self) -> int | None:
        """Size of the keys that a sparse-attention indexer keeps of its own."""
        return None

    @property
    def compress_ratio(self) -> int | None:
        """Tokens behind one pooled row, where older tokens are pooled."""
        return None

    @property
    def grows(self) -> bool:
        """Whether it keeps a row for each new token, at least within a window."""
        return False

    @property
    def state_elements(self) -> int:
        """Numbers of the state of one layer and sequence."""
        return sum(prod(tensor.shape) for tensor in self.state)

    def rows(self, context_len: int) -> int:
        """Rows of one sequence that one layer still reads at ``context_len``."""
        return context_len

    def token_bytes(self, key: RowType, value: RowType) -> int:
        """Bytes of one row of keys and values in one layer; 0 where it keeps none."""
        return 0

    def index_row_bytes(self, key: RowType) -> int:
        """Bytes of one key of the indexer in one layer, in the type of the keys."""
        return key.row_bytes(1, self.indexer_head_dim) if self.indexer_head_dim else 0

    def at(self, indices: tuple[int, ...]) -> Self:
        """The same for other layers."""
        return replace(self, indices=indices)

    def split_heads(self, heads: int) -> Self:
        """The part of a rank that holds so many of the KV heads; a kind without such heads is kept whole."""
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Callable[[Any], dict[str, Any]]) -> Any:
        """Every kind has every key: null, or the empty list, where the kind lacks the thing."""
        reference = handler(core)
        schema = handler.resolve_ref_schema(reference)  # type: ignore[attr-defined]
        own = schema["properties"]
        absent: dict[str, Any] = {name: {"type": "null"} for name in cls.record_fields}
        absent |= {"count": {"type": "integer"}, "state": {"type": "array", "maxItems": 0}}
        fixed: dict[str, Any] = {"type": "integer"}
        if issubclass(cls, LatentAttention):
            absent |= {"num_key_value_heads": fixed, "head_dim_v": fixed}
        schema["properties"] = {name: own.get(name, absent[name]) for name in cls.record_fields}
        schema["required"] = list(cls.record_fields)
        return reference


@dataclass(frozen=True, slots=True)
class _Heads(LayerGroup):
    """Layers with query, key and value heads; None where a number is unknown."""

    num_attention_heads: int | None = None
    num_key_value_heads: int | None = None
    head_dim_k: int | None = None
    head_dim_v: int | None = None

    def token_bytes(self, key: RowType, value: RowType) -> int:
        """A key and a value for each KV head."""
        heads = self.num_key_value_heads or 0
        return key.row_bytes(heads, self.head_dim_k or 0) + value.row_bytes(heads, self.head_dim_v or 0)

    def split_heads(self, heads: int) -> Self:
        """The part of a rank that holds so many of the KV heads."""
        return replace(self, num_key_value_heads=heads)


@dataclass(frozen=True, slots=True)
class _SelfAttention(_Heads):
    """Attention over the sequence's own tokens."""

    rotary: bool | None = None
    indexer_head_dim: int | None = None
    state: tuple[StateTensor, ...] = ()

    @property
    def grows(self) -> bool:
        """Whether the cache grows by one row per token."""
        return True


@dataclass(frozen=True, slots=True)
class _Windowed(_SelfAttention):
    """Attention that stops at a width."""

    window: int | None = None

    def rows(self, context_len: int) -> int:
        """No more than the window."""
        return min(context_len, self.window) if self.window else context_len


@dataclass(frozen=True, slots=True)
class FullAttention(_SelfAttention):
    """Every token sees all before it: one row per token. A state may stand beside (Falcon-H1)."""

    kind: Literal["full"] = field(default="full", kw_only=True)


@dataclass(frozen=True, slots=True)
class SlidingWindow(_Windowed):
    """Every token sees the last ``window`` ones, itself counted: so many rows are read."""

    kind: Literal["sliding"] = field(default="sliding", kw_only=True)


@dataclass(frozen=True, slots=True)
class ChunkedAttention(_Windowed):
    """Every token sees its own chunk of ``window`` tokens (Llama 4)."""

    kind: Literal["chunked"] = field(default="chunked", kw_only=True)


@dataclass(frozen=True, slots=True)
class LatentAttention(LayerGroup):
    """One row per token for all heads: keys and values are both read from it.

    ``head_dim_k`` is ``kv_lora_rank + qk_rope_head_dim`` with one KV head and ``head_dim_v`` 0; the sizes
    after up-projection are facts (``qk_nope_head_dim``, ``qk_rope_head_dim``, ``v_head_dim``). With a
    ``window`` and a ``compress_ratio`` only one pooled row per so many tokens is kept beyond the window
    (DeepSeek-V4).
    """

    num_attention_heads: int | None = None
    head_dim_k: int | None = None
    rotary: bool | None = None
    indexer_head_dim: int | None = None
    window: int | None = None
    compress_ratio: int | None = None
    kind: Literal["latent"] = field(default="latent", kw_only=True)

    @property
    def num_key_value_heads(self) -> int:
        """One row serves every head."""
        return 1

    @property
    def head_dim_v(self) -> int:
        """The value is part of the one row."""
        return 0

    @property
    def grows(self) -> bool:
        """One row per token, or per some tokens."""
        return True

    def rows(self, context_len: int) -> int:
        """All, or the window and the pooled rows."""
        if not self.window:
            return context_len
        pooled = context_len // self.compress_ratio if self.compress_ratio else 0
        return min(context_len, self.window) + pooled

    def token_bytes(self, key: RowType, value: RowType) -> int:
        """The one row, in the type of the keys."""
        return key.row_bytes(1, self.head_dim_k or 0)


@dataclass(frozen=True, slots=True)
class Recurrent(LayerGroup):
    """A state of constant size and no rows; an empty ``state`` is one of unknown size."""

    state: tuple[StateTensor, ...] = ()
    kind: Literal["recurrent"] = field(default="recurrent", kw_only=True)


@dataclass(frozen=True, slots=True)
class CrossAttention(_Heads):
    """Keys and values of another sequence: one row per encoder (or image) token, whatever is decoded."""

    kind: Literal["cross"] = field(default="cross", kw_only=True)


@dataclass(frozen=True, slots=True)
class SharedCache(_Heads):
    """Layers that read the keys and values of an earlier one and keep none of their own."""

    rotary: bool | None = None
    window: int | None = None
    kind: Literal["shared"] = field(default="shared", kw_only=True)

    def token_bytes(self, key: RowType, value: RowType) -> int:
        """They keep none of their own."""
        return 0


@dataclass(frozen=True, slots=True)
class NoCache(LayerGroup):
    """Layers that keep nothing: feed-forward blocks, encoders."""

    kind: Literal["none"] = field(default="none", kw_only=True)


AnyLayer = (
    FullAttention
    | SlidingWindow
    | ChunkedAttention
    | LatentAttention
    | Recurrent
    | CrossAttention
    | SharedCache
    | NoCache
)
