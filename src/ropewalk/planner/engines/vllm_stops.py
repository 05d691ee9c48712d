"""What vLLM stops at before it measures any memory, in its own words: the one home of these rules.

Plans and ``check`` ask for the same stops: items larger than a batch, ways of drafting, adapters, weights in
host memory beside recurrent states.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from ropewalk.planner.engines import vllm_adapters
from ropewalk.planner.engines import vllm_speculation as drafting
from ropewalk.planner.engines.vllm_items import whole_item
from ropewalk.planner.records import PlanRequest
from ropewalk.planner.shape import ModelShape


@dataclass(frozen=True, slots=True)
class StartRefusal:
    """One reason: ``code`` of its finding, ``flag`` that is to blame, ``least`` the value that starts, None
    where no other value does."""

    code: str
    flag: str
    message: str
    least: int | None = None

    @property
    def where(self) -> dict[str, Any]:
        """The figures of its finding."""
        return {} if self.least is None else {"fix": f"{self.flag} {self.least}", "least": self.least}


def stops(
    shape: ModelShape,
    request: PlanRequest,
    *,
    batched: int,
    running: int,
    without: Collection[str] = (),
) -> Iterator[StartRefusal]:
    """Every reason to stop, on a GPU. ``batched`` are the tokens of one step, ``running`` the sequences that
    may run at once, ``without`` the kinds of items that the server does not take."""
    spec = drafting.speculation_of(request)
    item = None if request.language_model_only else whole_item(shape, request.engine_version, without=without)
    if item is not None and item.tokens > batched:
        yield StartRefusal(
            "item_above_batched_tokens",
            "--max-num-batched-tokens",
            f"Chunked MM input disabled but max_tokens_per_mm_item ({item.tokens}) is larger than "
            f"max_num_batched_tokens ({batched})",
            item.tokens,
        )
    why = spec and drafting.refusal(shape, spec, request.engine_version, batched=batched, running=running)
    if why:
        yield StartRefusal("speculation_refused", "--speculative-config", why)
    if request.lora:
        why = vllm_adapters.adapters_refusal(shape, request)
        why = why or (spec and drafting.adapters_refusal(spec, batched=batched, running=running))
        if why:
            yield StartRefusal("adapters_refused", "--enable-lora", why)
    if request.cpu_offload_bytes and any(group.state for group in shape.layers):
        yield StartRefusal(
            "cpu_offload_hybrid",
            "--cpu-offload-gb",
            "Cannot re-initialize the input batch when CPU weight offloading is enabled; newer versions "
            "start a model with recurrent states and answer garbage",
        )
