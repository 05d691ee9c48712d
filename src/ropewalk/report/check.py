"""The page of ``ropewalk check``: a verdict on a command line, what it resolves to, how it should read."""

from __future__ import annotations

from collections.abc import Iterator

from ropewalk.checking.records import CheckResult, Resolved
from ropewalk.report.command import fold
from ropewalk.report.page import Block, Page, Verbatim, Words, fields, findings_block, parts, words
from ropewalk.report.plan import COMMAND_WIDTH
from ropewalk.units import format_bytes, format_tokens


def check_page(result: CheckResult) -> Page:
    """The page; it says how to have more judged where the checkpoint was not found."""
    rows: list[tuple[str, Block]] = [
        ("engine", parts(result.engine, f"worked out from the rules of {_version(result)}, not run")),
        ("serves", parts(each=list(_resolved(result.resolved)) or ["unknown without the checkpoint"])),
        ("findings", findings_block(result.findings)),
    ]
    if "model" in result.not_judged:
        rows.append(("model", "not found; add --checkpoint to check lengths and memory"))
    if "memory" in result.not_judged and "model" not in result.not_judged:
        rows.append(("memory", "not judged; add --memory SIZE or --gpu NAME to see whether it fits"))
    corrected = result.corrected
    if corrected is None:
        rows.append(("corrected", "no automatic fix; see the findings"))
    elif corrected.changed:
        rows.append(("corrected", ""))
    command = (
        [Verbatim(fold(corrected.command, width=COMMAND_WIDTH))] if corrected and corrected.changed else []
    )
    return Page((fields(rows), *command), title=_verdict(result))


def _version(result: CheckResult) -> str:
    """The version that the command is judged for; the newest known where it names none."""
    return result.engine_version or result.rules_version


def _verdict(result: CheckResult) -> Words:
    if result.ok is None:
        return words((f"NOT JUDGED: {' and '.join(result.not_judged)}", "warn"))
    return words(("OK", "good") if result.ok else ("WRONG", "bad"))


def _resolved(resolved: Resolved) -> Iterator[str]:
    if resolved.context_per_request is not None:
        yield f"{format_tokens(resolved.context_per_request)} tokens per request"
    if resolved.num_sequences is not None:
        yield f"{resolved.num_sequences:,} at once"
    if resolved.kv_cells is not None:
        yield f"room for {format_tokens(resolved.kv_cells)} tokens"
    if resolved.kv_bytes is not None:
        yield f"KV cache {format_bytes(resolved.kv_bytes)}"
    if resolved.derived_max_len is not None:
        yield f"the engine's own limit {format_tokens(resolved.derived_max_len)} tokens"
    if resolved.rope:
        yield f"rope {resolved.rope.get('type')} {resolved.rope.get('factor') or ''}".rstrip()
