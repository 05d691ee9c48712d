"""Where engines changed their rope rules: the one place that compares version numbers.

Each rule names the change and the first release that has it. A version that is not known is taken to be
as new as the ones these rules were checked against (vLLM 0.33, llama.cpp b11434).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ropewalk.engines import LLAMA_SERVER, VLLM, EngineName, engine_of
from ropewalk.errors import UsageError
from ropewalk.findings import Finding


@dataclass(frozen=True, slots=True)
class VersionRule:
    """A change of behaviour: ``since`` is a release (vLLM) or a build number (llama.cpp)."""

    name: str
    engine: EngineName
    since: tuple[int, ...]
    change: str
    source: str


ROPE_SCALING_FLAG_REMOVED = VersionRule(
    "rope_scaling_flag_removed",
    VLLM.name,
    (0, 11, 1),
    "--rope-scaling and --rope-theta are gone; --hf-overrides is what is left",
    "vllm-project/vllm#28006",
)
ROPE_PARAMETERS_KEY = VersionRule(
    "rope_parameters_key",
    VLLM.name,
    (0, 12, 0),
    "overrides are read from rope_parameters with rope_theta inside; before, rope_scaling and rope_theta",
    "vllm-project/vllm#28542",
)
YARN_LENGTH_FROM_CONFIG = VersionRule(
    "yarn_length_from_config",
    VLLM.name,
    (0, 30, 0),
    "YaRN no longer multiplies the length: max_position_embeddings is what can be served",
    "vllm-project/vllm#56446; 0.29.0 has the old rule, 0.30.0 the new one",
)
YARN_LIFTS_TRAINED_CONTEXT = VersionRule(
    "yarn_lifts_trained_context",
    LLAMA_SERVER.name,
    (10754,),
    "YaRN flags raise the trained context that slots are capped at; before, only --override-kv did",
    "ggml-org/llama.cpp#28030, merged 2026-08-30; b10754 is the first build that was seen with it",
)
# The newest minor release whose rules were read; builds of llama.cpp come daily and are taken as they are.
NEWEST: dict[str, tuple[int, ...]] = {VLLM.name: (0, 33)}
RULES = (
    ROPE_SCALING_FLAG_REMOVED,
    ROPE_PARAMETERS_KEY,
    YARN_LENGTH_FROM_CONFIG,
    YARN_LIFTS_TRAINED_CONTEXT,
)


def has(rule: VersionRule, version: str | None, *, engine: EngineName | None = None) -> bool:
    """Whether a version has the change; an unknown one counts as new, as does that of another ``engine``."""
    if engine not in (None, rule.engine):
        return True
    parsed = parse_version(version, rule.engine)
    return parsed is None or parsed >= rule.since


def parse_version(version: str | None, engine: EngineName) -> tuple[int, ...] | None:
    """``"0.11.2"`` -> (0, 11, 2); ``"b11434"``, ``"11434"``, ``"2026.10.11549"`` -> (build,).

    None where there is no version, or none that can be read.
    """
    if version is None:
        return None
    if engine_of(engine).counts_builds:
        builds = re.findall(r"(?:\bb|\b)(\d{4,6})\b", re.sub(r"\b20\d\d\.", "", version))
        return (int(builds[-1]),) if builds else None
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version.strip())
    return tuple(int(part or 0) for part in match.groups()) if match else None


def require_version(version: str | None) -> None:
    """Raise :class:`UsageError` for a version that has no number in it."""
    if version is not None and not re.search(r"\d", version):
        raise UsageError(
            f"{version!r} is not a version; write one such as 0.33.0 or b11434",
            where={"field": "engine_version", "value": version},
        )


def version_findings(version: str | None, engine: EngineName) -> list[Finding]:
    """``engine_version_unknown`` for a release after the newest that the rules were checked against."""
    newest = NEWEST.get(engine)
    parsed = parse_version(version, engine)
    if newest is None or parsed is None or parsed[: len(newest)] <= newest:
        return []
    known = ".".join(map(str, newest))
    return [
        Finding(
            "engine_version_unknown",
            "warning",
            f"no rules of {engine_of(engine).title} {version} are known: the newest known, those of {known}, "
            "are used",
            {"field": "engine_version", "value": version, "newest": known},
        )
    ]
