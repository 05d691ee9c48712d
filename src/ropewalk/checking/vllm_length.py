"""Findings about the length of a vLLM command: refused, read out of bounds, or beyond what was trained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ropewalk.checking.diagnostics import Diagnostic, Repair, diagnostic
from ropewalk.checking.lengths import beyond_published, over_trained, short_texts
from ropewalk.checking.vllm_repair import override_text
from ropewalk.checking.vllm_settings import ALLOW_LONG, VllmServed, VllmSettings
from ropewalk.inspector.rope_blocks import type_of
from ropewalk.planner.rope.decision import RopeAdvice
from ropewalk.units import format_tokens as tokens

_FLAG = "--max-model-len"


def length_diagnostics(
    settings: VllmSettings, served: VllmServed, advice: RopeAdvice, repair: Repair
) -> Iterator[Diagnostic]:
    """The length asked for against the one derived, the table of positions, and the training.

    ``repair`` is the override that serves the length, where one does.
    """
    if served.served_len > served.derived_len:
        yield _over_derived(settings, served, repair)
        if not settings.allow_long:
            return
    if served.table_rows is not None and served.served_len > served.table_rows:
        yield _table_too_short(served, served.table_rows, repair)
        if type_of(served.block) == "yarn":
            return
    if type_of(served.block) == "longrope":
        yield from _longrope(settings, served)
    native = f"--max-model-len {advice.native_context}"
    if type_of(served.block) == "default" and served.served_len <= served.derived_len:
        yield from over_trained(served.served_len, advice, flag=_FLAG, fix=override_text(repair) or native)
    yield from beyond_published(served.served_len, advice, flag=_FLAG)
    factor = served.block.get("factor")
    if served.overridden.block is not None and type_of(served.block) == "yarn" and factor:
        yield short_texts(factor, advice, length=served.served_len, flag="--hf-overrides")


def _over_derived(settings: VllmSettings, served: VllmServed, repair: Repair) -> Diagnostic:
    """vLLM's own refusal, or the variable that turns it into a warning."""
    asked = (
        f"--max-model-len {tokens(served.served_len)} is more than the {tokens(served.derived_len)} that "
        "vLLM derives from the config"
    )
    if settings.allow_long:
        return diagnostic(
            "context_over_trained",
            "warning",
            f"{asked}; {ALLOW_LONG} lets it start all the same, and hides real mistakes with it",
            fix=_words(repair),
            flag=_FLAG,
            context_len=served.served_len,
            derived_max_len=served.derived_len,
        )
    return diagnostic(
        "context_over_trained",
        "error",
        f"{asked}: it stops with a ValueError",
        fix=_words(repair),
        repair=repair,
        flag=_FLAG,
        context_len=served.served_len,
        derived_max_len=served.derived_len,
    )


def _table_too_short(served: VllmServed, rows: int, repair: Repair) -> Diagnostic:
    """YaRN's prompts were seen to poison the server; a dynamic one starts and serves what is shorter."""
    message = (
        f"vLLM has {tokens(rows)} rows of positions for this block and serves {tokens(served.served_len)}"
    )
    where: dict[str, Any] = {"rows": rows, "context_len": served.served_len}
    if type_of(served.block) != "yarn":
        return diagnostic(
            "rope_table_too_short",
            "warning",
            f"{message}: positions beyond are out of its range, and below nothing is scaled",
            fix=f"--max-model-len {rows}",
            flag="--hf-overrides",
            **where,
        )
    return diagnostic(
        "rope_table_too_short",
        "error",
        f"{message}. A prompt past the table comes back empty, and so does every later one, without an error",
        fix=_words(repair),
        repair=repair,
        flag="--hf-overrides",
        **where,
    )


def _longrope(settings: VllmSettings, served: VllmServed) -> Iterator[Diagnostic]:
    original = served.block.get("original_max_position_embeddings")
    if not original:
        return
    if settings.max_model_len is None and served.served_len < served.derived_len:
        yield diagnostic(
            "context_below_trained",
            "warning",
            f"without --max-model-len vLLM serves {tokens(served.served_len)} tokens of a longrope model, "
            f"not the {tokens(served.derived_len)} that it was trained for",
            fix=f"--max-model-len {served.derived_len}",
            flag=_FLAG,
            context_len=served.served_len,
            derived_max_len=served.derived_len,
        )
    if served.served_len > original:
        yield diagnostic(
            "short_text_degradation",
            "warning",
            f"for more than {tokens(int(original))} tokens vLLM takes longrope's long list for every prompt, "
            "short ones too",
            fix=f"--max-model-len {int(original)} where no prompt is longer",
            flag=_FLAG,
            original_max_position_embeddings=original,
        )


def _words(repair: Repair) -> str:
    return repair.writes or "remove the rope keys"
