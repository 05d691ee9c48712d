"""How vLLM is told to propose tokens, what that costs beside the draft's own weights, what it refuses.

Read in config/speculative.py and config/vllm.py of 0.11 to 0.33.
"""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.errors import UsageError
from ropewalk.planner.engines import vllm_versions as versions
from ropewalk.planner.records import PlanRequest
from ropewalk.planner.rope.versions import VersionRule, has, parse_version
from ropewalk.planner.shape import ModelShape

DRAFT_TOKENS = 4  # where no number is asked for: what vLLM's examples start from
MTP, DRAFT_MODEL = "mtp", "draft_model"
# Read the target's hidden states (use_eagle).
_HEADS = frozenset({"eagle", "eagle3", MTP, "dflash"})
_NEEDS_DRAFT = frozenset({"eagle", "eagle3", DRAFT_MODEL, "medusa", "mlp_speculator", "dflash"})
_WITHOUT_DRAFT = frozenset({"ngram", "ngram_gpu", "suffix"})
METHODS = (*sorted(_NEEDS_DRAFT), *sorted(_WITHOUT_DRAFT))
# Steps overlap with these (async_scheduling, config/vllm.py:1061-1082 of 0.26), and never did with others.
_OVERLAPS = _HEADS | {"ngram_gpu"}
# Up to 0.26 the second model runner had none of these; later it lacks the last three (config/vllm.py:2155 of
# 0.26, :2926 of 0.32).
_FIRST_RUNNER = frozenset({"ngram", "ngram_gpu", DRAFT_MODEL, "suffix", "medusa", "mlp_speculator"})
_FIRST_RUNNER_STILL = frozenset({"suffix", "medusa", "mlp_speculator"})
_DRAFT_MODELS = VersionRule(
    "draft_models",
    "vllm",
    (0, 14, 0),
    "a model of its own may draft; before, the engine stopped",
    "engine/arg_utils.py:1743 of 0.13.0 and 0.19.0",
)
_DRAFT_MODEL_OVERLAPS = VersionRule(
    "draft_model_overlaps",
    "vllm",
    (0, 27, 0),
    "steps of a draft model overlap",
    "config/vllm.py of 0.26.0 and 0.32.0",
)
_SLOTS_COUNTED = VersionRule(
    "draft_slots_counted",
    "vllm",
    (0, 20, 0),
    "stops where the drafting slots of all sequences leave no token to schedule",
    "config/vllm.py:1373 of 0.20.0",
)
_ANY_EAGLE3 = VersionRule(
    "any_eagle3",
    "vllm",
    (0, 19, 0),
    "EAGLE-3 for any target; before, for a list of families",
    "config/speculative.py of 0.13.0 and 0.19.0",
)
_EAGLE3_FAMILIES = ("llama", "qwen", "minicpm", "gpt_oss")


@dataclass(frozen=True, slots=True)
class Speculation:
    """A way of proposing ``tokens`` per step; ``draft`` is the checkpoint that does, None without one."""

    method: str
    tokens: int
    draft: str | None = None

    @property
    def reads_hidden_states(self) -> bool:
        """Whether the draft runs on the target's hidden states."""
        return self.method in _HEADS

    @property
    def slots(self) -> int:
        """Places of a batch that each sequence needs beyond its own (``max_num_new_slots_for_drafting``)."""
        return {"dflash": self.tokens, DRAFT_MODEL: 1}.get(self.method, 0)


def speculation_of(request: PlanRequest) -> Speculation | None:
    """What a request asks for; None without. Raises :class:`UsageError` for what cannot be asked."""
    if request.mtp:
        return Speculation(MTP, request.mtp)
    if request.speculative is None:
        return Speculation(DRAFT_MODEL, DRAFT_TOKENS, request.draft) if request.draft else None
    method, _, count = request.speculative.partition(":")
    tokens = int(count) if count.isdecimal() else 0 if count else DRAFT_TOKENS
    if method not in METHODS or not 0 < tokens <= versions.MOST_DRAFTED:
        raise UsageError(
            f"--speculative {request.speculative!r} is no way to propose tokens: METHOD or METHOD:N with "
            f"{', '.join(METHODS)} (--mtp N for the checkpoint's own layers)",
            where={"flag": "--speculative", "value": request.speculative, "allowed": list(METHODS)},
        )
    if (method in _NEEDS_DRAFT) != (request.draft is not None):
        lacks = "needs a model that drafts: --draft" if method in _NEEDS_DRAFT else "takes no --draft"
        raise UsageError(
            f"--speculative {method} {lacks}",
            where={"flag": "--draft", "method": method, "value": request.draft},
        )
    return Speculation(method, tokens, request.draft)


def overlaps(spec: Speculation | None, version: str | None) -> bool:
    """Whether the next step is scheduled before the last one is settled."""
    if spec is None or spec.method in _OVERLAPS:
        return True
    return spec.method == DRAFT_MODEL and has(_DRAFT_MODEL_OVERLAPS, version)


def runner_for(shape: ModelShape, spec: Speculation | None, version: str | None) -> versions.Runner:
    """The model runner that profiles: the method may need the first."""
    found = versions.runner_of(shape, version)
    if spec is None or found == "v1":
        return found
    parsed = parse_version(version, "vllm")
    older = parsed is not None and parsed < (0, 27, 0)
    return "v1" if spec.method in (_FIRST_RUNNER if older else _FIRST_RUNNER_STILL) else found


def refusal(
    shape: ModelShape, spec: Speculation, version: str | None, *, batched: int, running: int
) -> str | None:
    """Why vLLM stops at this way of drafting, in its words; None where it does not.

    ``batched`` are the tokens of one step, ``running`` the sequences that may run at once.
    """
    if spec.method == DRAFT_MODEL and not has(_DRAFT_MODELS, version):
        return "Draft model speculative decoding is not supported yet"
    families = any(name in (shape.model_type or "") for name in _EAGLE3_FAMILIES)
    if spec.method == "eagle3" and shape.model_type and not families and not has(_ANY_EAGLE3, version):
        return f"Eagle3 is only supported for {', '.join(_EAGLE3_FAMILIES)} models, not {shape.model_type}"
    layers = shape.mtp_layers
    if spec.method == MTP and 0 < layers < spec.tokens and spec.tokens % layers:
        return f"num_speculative_tokens:{spec.tokens} must be divisible by n_predict={layers}"
    if spec.method == DRAFT_MODEL and shape.draft is not None and shape.draft.model is not None:
        own, other = shape.vocab_size, shape.draft.model.vocab_size
        if own != other:
            return (
                "Target and draft model should have the same vocabulary size: "
                f"vocab_size={own} and vocab_size={other}"
            )
    left = batched - running * spec.slots
    if left <= 0 and has(_SLOTS_COUNTED, version):
        return (
            f"max_num_scheduled_tokens is set to {left}: {running} sequences of {spec.slots} drafting slots "
            f"leave none of max_num_batched_tokens={batched}"
        )
    return None


def adapters_refusal(spec: Speculation, *, batched: int, running: int) -> str | None:
    """Adapters beside drafting want a step to hold every sequence's tokens (engine/arg_utils.py:1863 of
    0.19)."""
    needed = running * (spec.tokens + 1)
    if batched >= needed:
        return None
    return (
        "Consider increasing max_num_batched_tokens or decreasing num_speculative_tokens: "
        f"{batched} is less than {needed}"
    )
