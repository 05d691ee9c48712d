"""What a checkpoint says about itself, under one set of names, whichever format says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ropewalk.errors import CheckpointError
from ropewalk.inspector.records import Fact

# More layers than any model has; a bound before anything is built per layer.
MAX_LAYERS = 100_000


@dataclass(frozen=True, slots=True)
class Settings:
    """Stated values by canonical name, each with the key that states it; nothing is checked yet.

    ``block`` is the raw block of the language model (for GGUF the keys below ``<arch>.``), ``outer``
    everything around it. ``text_config_key`` is where the block is nested, None at the top level.
    """

    model_type: str | None
    architecture: str | None
    text_config_key: str | None
    block: Mapping[str, Any]
    outer: Mapping[str, Any]
    facts: Mapping[str, Fact] = field(default_factory=dict)

    def fact(self, name: str) -> Fact | None:
        """The stated value with its source; None where nothing is stated."""
        return self.facts.get(name)

    def value(self, name: str) -> Any:
        """The stated value; None where nothing is stated."""
        fact = self.facts.get(name)
        return None if fact is None else fact.value

    def integer(self, name: str) -> int | None:
        """The stated value as a whole number; None where it is absent, a list or no whole number."""
        value = self.value(name)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def per_layer(self, name: str, num_layers: int) -> list[int | None]:
        """One value per layer, whether the setting is a number or a list of numbers."""
        value = self.value(name)
        if isinstance(value, list):
            return [value[i] if i < len(value) else None for i in range(num_layers)]
        return [self.integer(name)] * num_layers

    def with_facts(self, facts: Mapping[str, Fact]) -> Settings:
        """These settings and more; a fact that is stated already stays as it is."""
        return replace(self, facts={**facts, **self.facts})


def require_count(value: Any, *, field_name: str, file: str, limit: int = 2**31) -> int:
    """A count from a file: a whole number from 0 to ``limit``. Raises :class:`CheckpointError`."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
        raise CheckpointError(
            f"{file}: {field_name} is {value!r}, expected a whole number from 0 to {limit}",
            code="config_invalid",
            where={"file": file, "field": field_name, "value": repr(value)},
        )
    return value
