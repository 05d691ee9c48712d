"""What a checkpoint says about itself, under one set of names, whichever format says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ropewalk.errors import CheckpointError
from ropewalk.inspector.records import Fact, Format, Source

# More layers than any model has: a bound before anything is built per layer.
MAX_LAYERS = 100_000


@dataclass(frozen=True, slots=True)
class Settings:
    """Stated values by canonical name, each with the key that states it; nothing is checked yet.

    ``block`` is the raw block of the language model (for GGUF the keys below ``<arch>.``), ``outer``
    everything around it, ``defaults`` what the model's class assumes for raw keys that are absent.
    ``text_config_key`` is where the block is nested, None at the top level.
    """

    format: Format
    model_type: str | None
    architecture: str | None
    text_config_key: str | None
    block: Mapping[str, Any]
    outer: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Fact] = field(default_factory=dict)

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
        """The stated value of one layer, whether the setting is a number or a list with one per layer."""
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


def require_count(value: Any, *, field_name: str, file: str, limit: int = 2**40) -> int:
    """A count from a file: a whole number from 0 to ``limit``. Raises :class:`CheckpointError`."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
        raise CheckpointError(
            f"{file}: {field_name} is {value!r}, expected a whole number from 0 to {limit}",
            code="config_invalid",
            where={"file": file, "field": field_name, "value": repr(value)[:200]},
        )
    return value


def require_counts(values: list[Any], *, field_name: str, file: str) -> list[int]:
    """One count per layer. Raises :class:`CheckpointError`."""
    if len(values) > MAX_LAYERS:
        raise CheckpointError(
            f"{file}: {field_name} lists {len(values)} values, more than any model has layers",
            code="config_invalid",
            where={"file": file, "field": field_name},
        )
    return [require_count(value, field_name=field_name, file=file) for value in values]
