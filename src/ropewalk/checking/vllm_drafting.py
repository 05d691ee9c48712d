"""What a vLLM command says about drafting: ``--speculative-config`` whole or dotted, or its short options.

Rules of config/speculative.py, 0.11 to 0.33.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ropewalk.planner.engines.vllm_speculation import DRAFT_MODEL, METHODS, MTP

CONFIG = "--speculative-config"
_SHORT = {"--spec-method": "method", "--spec-model": "model", "--spec-tokens": "num_speculative_tokens"}
# By a word in the draft's name, in this order.
_BY_NAME = {"eagle-": "eagle", "eagle3": "eagle3", "dflash": "dflash"}
_WITHOUT_MODEL = frozenset({"ngram", "ngram_gpu", "suffix"})
_SUFFIX_TREE = 24  # suffix_decoding_max_tree_depth, which is how many it proposes where no number is given
# Taken by vLLM, and not priced here.
_UNPRICED = frozenset({"dspark", "custom_class", "extract_hidden_states"})


@dataclass(frozen=True, slots=True)
class Drafting:
    """``mtp`` tokens of the checkpoint's own layers, or ``speculative`` (``METHOD:N``) with the ``draft``
    that it names. ``problem`` is why vLLM refuses it, ``priced`` False where its memory is not known."""

    mtp: int = 0
    speculative: str | None = None
    draft: str | None = None
    problem: str | None = None
    priced: bool = True


def drafting_of(parsed: Mapping[str, Any]) -> Drafting:
    """The way of drafting that a command asks for; nothing where it asks for none."""
    given = parsed.get(CONFIG)
    stated = given if isinstance(given, Mapping) else {}
    config = {str(key).replace("-", "_"): value for key, value in stated.items()}
    short = {key: parsed[flag] for flag, key in _SHORT.items() if flag in parsed}
    twice = next((key for key in short if key in config), None)
    if twice is not None:
        return Drafting(problem=f"{twice} is given by an option of its own and in {CONFIG}")
    config |= short
    if not config:
        return Drafting()
    if "tensor_parallel_size" in config:
        return Drafting(
            problem="'tensor_parallel_size' is no key of it: pass 'draft_tensor_parallel_size' instead"
        )
    model = config.get("model")
    method = _method(config.get("method"), model if isinstance(model, str) else "")
    if method in _UNPRICED:
        return Drafting(priced=False)
    if method != MTP and method not in METHODS:
        return Drafting(problem=f"no speculative method is called {method!r}")
    return _drafting(method, config.get("num_speculative_tokens"), model if isinstance(model, str) else None)


def _drafting(method: str, count: object, model: str | None) -> Drafting:
    if count is None and method in (MTP, "suffix"):
        count = 1 if method == MTP else _SUFFIX_TREE
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        needs = "num_speculative_tokens must be provided" if count is None else "it must be greater than zero"
        return Drafting(problem=f"{needs} (num_speculative_tokens: {count})")
    if method == MTP:
        return Drafting(mtp=count)
    if method in _WITHOUT_MODEL:
        return Drafting(speculative=f"{method}:{count}")
    if model is None:
        return Drafting(problem="num_speculative_tokens was provided but without speculative model")
    return Drafting(speculative=f"{method}:{count}", draft=model)


def _method(stated: object, model: str) -> str:
    """As stated; else by the draft's name, else a model of its own."""
    if isinstance(stated, str):
        return MTP if stated.endswith("_mtp") else stated.strip("[]")
    if model.strip("[]") == "ngram":
        return "ngram"
    return next((method for word, method in _BY_NAME.items() if word in model.lower()), DRAFT_MODEL)
