"""What publishers say about the context of their models, where the checkpoint itself does not.

The one hand-kept table of this project: short, each row with its source, each model recognised by its
fields and never by the name of its repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ropewalk.inspector.records import Fact


@dataclass(frozen=True, slots=True)
class PublishedRule:
    """A publisher's context rule.

    ``native_context`` is the length of pre-training, ``max_validated`` the longest that the publisher
    describes, ``yarn_original`` the length that YaRN factors are counted from (None: no such rule).
    """

    name: str
    native_context: int
    max_validated: int
    yarn_original: int | None
    note: str
    source: str


def rule_for(facts: Mapping[str, Fact]) -> PublishedRule | None:
    """The rule of the model that these facts describe; None where no publisher's rule is known."""
    raise NotImplementedError


def contexts(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """``native_context`` and ``supported_context`` from the facts gathered so far."""
    raise NotImplementedError
