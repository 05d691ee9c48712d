"""Whether the output head is the embedding: shown by the tensors, else stated."""

from __future__ import annotations

import re

from ropewalk.findings import Finding
from ropewalk.inspector.derive.places import Places
from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.records import Fact

_GENERATES = re.compile(r"For(?:CausalLM|ConditionalGeneration|MaskedLM|PreTraining)|LMHeadModel|LMModel")


def tied_embeddings(settings: Settings, places: Places, *, incomplete: bool) -> tuple[Fact, list[Finding]]:
    """``tie_word_embeddings`` and what is told about it.

    A stored head beside a flag that says "tied" is a copy by the config's own word: counted once, told.
    Without a head the embedding serves as one; a config that denies it is contradicted.
    """
    declared = settings.fact("tie_word_embeddings")
    flag = declared.value if declared is not None and declared.source != "default" else None
    if not places.embedding or incomplete:
        return declared or Fact(None, "derived", "not stated"), []
    head = next((row.name for row in places.output_head if len(row.shape) > 1), None) or _other_head(places)
    if head is None:
        return _without_head(settings, declared, flag)
    if flag is True:
        message = f"tie_word_embeddings is true, yet {head} is stored as well; it is counted once"
        where = {"field": "tie_word_embeddings", "config": True, "tensor": head}
        detail = f"tie_word_embeddings; {head} is stored as well"
        return Fact(True, "config", detail), [
            Finding("tied_flag_but_lm_head_present", "warning", message, where)
        ]
    return Fact(False, "tensor", head), []


def _other_head(places: Places) -> str | None:
    """A matrix with a row per token under an unknown name: where there is one, it may be the head."""
    rows = {row.shape[0] for row in places.embedding if len(row.shape) == 2}
    found = (row.name for row in places.other if len(row.shape) == 2 and row.shape[0] in rows)
    return next(found, None)


def _without_head(settings: Settings, declared: Fact | None, flag: bool | None) -> tuple[Fact, list[Finding]]:
    """The embedding is the head of a model that generates; an encoder or a reward model has none."""
    generates = settings.format == "gguf" or bool(_GENERATES.search(settings.architecture or ""))
    if settings.architecture is not None and not generates:
        return declared or Fact(None, "derived", f"{settings.architecture} has no output head"), []
    tied = Fact(True, "tensor", "no output head is stored")
    if flag is not False or not generates:
        return tied, []
    message = "tie_word_embeddings is false, but no output head is stored"
    where = {"field": "tie_word_embeddings", "config": False, "tensor": "lm_head.weight"}
    return tied, [Finding("lm_head_missing", "error", message, where)]
