"""The longest item that a model sees or hears, where vLLM must take it whole.

A model that attends both ways inside an item cannot have it cut: ``--disable-chunked-mm-input`` is forced
(platforms/cuda.py:229 of 0.20), and a start whose batches are smaller stops (``compute_mm_encoder_budget``,
v1/core/encoder_cache_manager.py).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ropewalk.planner.rope.versions import VersionRule, has
from ropewalk.planner.shape import ModelShape

_BOTH_WAYS = frozenset({"bagel", "gemma3", "molmo2", "moondream3", "paligemma"})
# A video of gemma4_mm.py: 32 frames of 70 tokens, two marks and a time of six.
_GEMMA4_VIDEO = 32 * (70 + 2 + 6)
_GEMMA4_WHOLE = VersionRule(
    "gemma4_items_whole",
    "vllm",
    (0, 20, 0),
    "Gemma 4's items are taken whole",
    "transformers_utils/model_arch_config_convertor.py of 0.19.0 and 0.20.0",
)
BATCH_HOLDS_ITEM = VersionRule(
    "batch_holds_item",
    "vllm",
    (0, 22, 0),
    "the default of --max-num-batched-tokens is raised to the longest item",
    "engine/arg_utils.py of 0.21.0 and 0.22.0; vllm-project/vllm#42687",
)


@dataclass(frozen=True, slots=True)
class Item:
    """One image or video, and the tokens that stand for it."""

    kind: str
    tokens: int


def whole_item(shape: ModelShape, version: str | None, *, without: Collection[str] = ()) -> Item | None:
    """The longest item that a batch must hold whole; None where items are cut, or where it is not known.

    ``without`` are the kinds that a server is told not to take (``--limit-mm-per-prompt``).
    """
    items = [item for item in _items(shape, version) if item.tokens and item.kind not in without]
    return max(items, key=lambda item: item.tokens, default=None)


def _items(shape: ModelShape, version: str | None) -> list[Item]:
    image = Item("image", shape.image_tokens)
    kind = (shape.model_type or "").removesuffix("_text")
    if kind in _BOTH_WAYS:
        return [image]
    if kind.startswith("gemma4") and shape.sees_both_ways and has(_GEMMA4_WHOLE, version):
        return [image, Item("video", _GEMMA4_VIDEO)]
    return []
