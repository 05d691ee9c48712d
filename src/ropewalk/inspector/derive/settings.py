"""What a checkpoint says about itself, under one set of names, whichever format says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ropewalk.errors import CheckpointError
from ropewalk.inspector.records import Fact, Format, Source
from ropewalk.limits import MAX_LAYERS

T = TypeVar("T")
_KIND_NAMES: dict[type, str] = {bool: "true or false", str: "a text"}
# Fields that may be listed layer by layer.
PER_LAYER = frozenset(
    {
        "num_attention_heads", "num_key_value_heads", "head_dim", "v_head_dim", "intermediate_size",
        "num_experts", "num_experts_per_tok", "moe_intermediate_size", "num_shared_experts",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """Stated values by canonical name, each with the key that states it; nothing is checked yet.

    ``block`` is the raw block of the language model (for GGUF the keys below ``<arch>.``), ``outer``
    everything around it, ``defaults`` what the model's class assumes for raw keys that are absent.
    ``text_config_key`` is where the block is nested, None at the top level. ``per_layer`` and ``by_word``
    hold what single layers, or the layers of one type, have of their own.
    """

    format: Format
    model_type: str | None
    architecture: str | None
    text_config_key: str | None
    block: Mapping[str, Any]
    outer: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Fact] = field(default_factory=dict)
    per_layer: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    by_word: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def fact(self, name: str) -> Fact | None:
        """The stated value with its source; None where nothing is stated, a fact of None for null."""
        return self.facts.get(name)

    def value(self, name: str) -> Any:
        """The stated value; None where nothing is stated."""
        fact = self.facts.get(name)
        return None if fact is None else fact.value

    def integer(self, name: str) -> int | None:
        """The stated value where it is one number for all layers."""
        value = self.value(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def at_layer(self, name: str, layer: int) -> int | None:
        """The stated value of one layer: its own, else the number or the entry of the list for all."""
        own = self.per_layer.get(layer, {})
        if name in own:
            return own[name]
        value = self.value(name)
        if isinstance(value, list):
            return value[layer] if layer < len(value) else None
        return self.integer(name)

    @property
    def source(self) -> Source:
        """Where stated values come from."""
        return "gguf" if self.format == "gguf" else "config"

    def raw(self, key: str) -> Any:
        """The value of a key in the block as it is written, else what the model's class assumes."""
        return self.block[key] if key in self.block else self.defaults.get(key)


def require(value: Any, kind: type[T], *, field_name: str, file: str) -> T:
    """A value of the type that its field has. Raises :class:`CheckpointError`."""
    if isinstance(value, kind):
        return value
    raise invalid(value, _KIND_NAMES.get(kind, kind.__name__), field_name=field_name, file=file)


def require_count(value: Any, *, field_name: str, file: str, limit: int = 2**40) -> int:
    """A count from a file: a whole number from 0 to ``limit``. Raises :class:`CheckpointError`."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
        raise invalid(value, f"a whole number from 0 to {limit:,}", field_name=field_name, file=file)
    return value


def require_counts(values: list[Any], *, field_name: str, file: str) -> list[int]:
    """One count per layer. Raises :class:`CheckpointError`."""
    if not 0 < len(values) <= MAX_LAYERS:
        raise invalid(len(values), f"1 to {MAX_LAYERS:,} values", field_name=field_name, file=file)
    return [require_count(value, field_name=field_name, file=file) for value in values]


def invalid(value: Any, expected: str, *, field_name: str, file: str) -> CheckpointError:
    shown = repr(value)[:200]
    return CheckpointError(
        f"{file}: {field_name} is {shown}, expected {expected}",
        code="config_invalid",
        where={"file": file, "field": field_name, "value": shown},
    )
