"""An inspection and a target length to the handful of values that a rope decision hangs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ropewalk.engines import EngineName, RopeTraits, engine_of
from ropewalk.inspector.published import PublishedRule, config_context, rule_for
from ropewalk.inspector.records import Inspection
from ropewalk.inspector.rope_blocks import Block, full_block, is_nested
from ropewalk.planner.rope import versions
from ropewalk.planner.rope.versions import VersionRule

# Keys by which a config states its length (vLLM 0.33, config/model.py:2545); the smallest stated one counts.
_LENGTH_KEYS = frozenset(
    {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length", "n_ctx"}
)


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known before anything is decided.

    ``native`` is the trained length, ``supported`` the longest that is described, ``limit`` the longest
    that the engine serves of the checkpoint as it is, ``config_len`` what the config itself says (rows of
    a learned table, of vLLM's table without YaRN). ``parameters`` may be nested per layer type, ``block``
    is that of the full-attention layers.
    """

    target: int
    engine: EngineName
    engine_version: str | None
    positions: str
    parameters: Mapping[str, Any]
    block: Block
    rule: PublishedRule | None
    native: int | None
    supported: int | None
    config_len: int | None
    limit: int | None
    text_config_key: str | None
    context_key: str
    allow_unvalidated: bool

    @property
    def traits(self) -> RopeTraits:
        """How the engine reads rotations and lengths."""
        return engine_of(self.engine).rope

    def has(self, rule: VersionRule) -> bool:
        """Whether the engine of this version has the change; one that the rule is not about has it."""
        return versions.has(rule, self.engine_version, engine=self.engine)

    @property
    def rope_type(self) -> str:
        """Canonical type of the full-attention layers as shipped."""
        return str(self.block.get("rope_type", "default"))

    @property
    def is_builtin(self) -> bool:
        """Whether the checkpoint carries a scaling already."""
        return self.rope_type not in ("default", "none")

    @property
    def is_nested(self) -> bool:
        """Whether layer types rotate differently."""
        return is_nested(self.parameters)

    @property
    def yarn_original(self) -> int | None:
        """The length that YaRN factors are counted from: the publisher's, else the trained one."""
        return self.rule.yarn_original or self.native if self.rule else self.native

    @property
    def scaled_len(self) -> int | None:
        """Length that the shipped YaRN block reaches; None without one."""
        original, factor = self.block.get("original_max_position_embeddings"), self.block.get("factor")
        return int(original * factor) if self.rope_type == "yarn" and original and factor else None

    @property
    def has_publishers_block(self) -> bool:
        """Whether the shipped scaling is the publisher's own rule, put into the config."""
        original = self.block.get("original_max_position_embeddings")
        return self.rope_type == "yarn" and self.rule is not None and self.rule.yarn_original == original


def read_situation(
    inspection: Inspection,
    *,
    context_len: int,
    engine: EngineName,
    engine_version: str | None,
    allow_unvalidated: bool,
) -> Situation:
    """Collect the facts; nothing is decided, nothing is guessed (unknown stays None)."""
    parameters = inspection.value("rope_parameters") or {}
    stated = config_context(inspection.facts)
    mpe = inspection.value("max_position_embeddings")
    detail = str(getattr(inspection.facts.get("max_position_embeddings"), "detail", "")).rpartition(".")[2]
    situation = Situation(
        target=context_len,
        engine=engine,
        engine_version=engine_version,
        positions=inspection.value("position_embedding") or ("rope" if parameters else "none"),
        parameters=parameters,
        block=full_block(parameters),
        rule=rule_for(inspection.facts),
        native=inspection.value("native_context"),
        supported=inspection.value("supported_context"),
        config_len=mpe,
        limit=mpe if engine_of(engine).rope.limited_by_header else stated.value,
        text_config_key=inspection.value("text_config_key"),
        context_key=detail if detail in _LENGTH_KEYS else "max_position_embeddings",
        allow_unvalidated=allow_unvalidated,
    )
    return _with_old_vllm_limit(situation)


def _with_old_vllm_limit(situation: Situation) -> Situation:
    """Before vLLM 0.30 a YaRN block alone set the length: original x factor."""
    if situation.scaled_len is None or situation.has(versions.YARN_LENGTH_FROM_CONFIG):
        return situation
    return replace(situation, limit=situation.scaled_len)
