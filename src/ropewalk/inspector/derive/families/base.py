"""What a family file may say: only what neither the fields of the config nor the tensors can tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.records import StateTensor

PositionRule = Callable[[Settings], str | None]
StateRule = Callable[[Settings], tuple[StateTensor, ...] | None]


@dataclass(frozen=True, slots=True)
class Family:
    """A family of models by its ``model_type`` (and the architecture names of GGUF files).

    ``positions`` names the position embedding where it is not rotary, or None where it is. ``nope_words``
    are the words of layers (see ``patterns``) that do not rotate in a model that has sliding layers too.
    ``state`` gives the state of a recurrent layer that fields alone do not describe. ``encoder_only``
    models keep no cache; ``all_recurrent`` ones have no attention, which no field says. With
    ``caches_per_layer`` above one every layer keeps so many times what its group says, and the groups are
    repeated. ``normalisation`` names the norm where the key of its epsilon misleads.
    """

    model_types: tuple[str, ...]
    positions: PositionRule | None = None
    nope_words: frozenset[str] = frozenset()
    state: StateRule | None = None
    encoder_only: bool = False
    all_recurrent: bool = False
    caches_per_layer: int = 1
    normalisation: str | None = None


_FAMILIES: dict[str, Family] = {}


def register(family: Family) -> Family:
    """Make a family known under all of its names; each name once."""
    for name in family.model_types:
        if name in _FAMILIES:
            raise ValueError(f"two family files are about {name}")
        _FAMILIES[name] = family
    return family


def family_of(model_type: str | None) -> Family:
    """The family of a model type; one that says nothing where there is none."""
    return _FAMILIES.get(model_type or "", _PLAIN)


def is_family(model_type: str | None) -> bool:
    """Whether a family file is about this model type."""
    return model_type in _FAMILIES


_PLAIN = Family(())
