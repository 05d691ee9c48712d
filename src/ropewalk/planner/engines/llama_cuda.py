"""The compute buffers of llama.cpp where CUDA devices compute, and of the host beside them.

ggml's scheduler copies inputs to the device and overlays the rest as on a processor: the device has one
hidden row less (the embedding is looked up on the host). Held against b11549 itself with a made device of
CUDA's rules (dense, mixtures and hybrids: equal to 0.01 MiB), and against the logs of older builds.
"""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.planner.engines import llama_builds as builds
from ropewalk.planner.engines.llama_compute import Bounds, Graph, Sizes, compute_buffer, sizes_of
from ropewalk.planner.engines.llama_slots import Slots
from ropewalk.units import MIB

_COPIES = 4  # of every input, where several devices work as a pipeline: GGML_SCHED_MAX_COPIES
# Rows of the hidden width among the host's inputs: the embedding looked up; since the graph selects between
# tokens and embeddings those too; since batches mix them a copy of them and the rows that are set in it.
_ONE_ROW, _SELECTED, _MIXED = 1, 2, 4
_MATRICES = 3  # of a feed-forward: what both inner rows hold, and their product
# Expert matrices on the host are copied to the device two at a time, beside the hidden rows of the block
# (b11549, one model at ubatches of 512 and 2,048: equal).
_STREAMED, _ROWS_BESIDE = 2, 6


@dataclass(frozen=True, slots=True)
class Situation:
    """What decides a device's buffer beside the graph.

    ``copies`` are the bytes of f16 copies of keys and values that attention works on. ``streamed`` are the
    bytes of the largest matrix that lies on the host and is multiplied with here, 0 where there is none;
    ``experts`` says that it is one of experts. ``pipeline``: several devices take turns. ``attends`` False
    says that flash attention runs on the host, having no kernel here.
    """

    version: str | None
    flash: bool
    copies: int
    streamed: int
    experts: bool
    pipeline: bool
    attends: bool = True


def device_buffer(graph: Graph, slots: Slots, at: Situation) -> Bounds:
    """Bytes of one device's buffer; a build between two known ones may have either rule."""
    sizes = sizes_of(graph, slots, flash=at.flash)
    whole = compute_buffer(graph, slots, flash=at.flash)
    # Inputs of every block are made on the host, in part (Gemma 3n: 10.5 MiB of 15 a row less here).
    less = 4 * sizes.rows * graph.shape.per_layer_len
    rows = _unmixed_rows(graph, at.version)
    base = Bounds(
        whole.low - sizes.row * (1 + rows.high) - less,
        whole.bytes - sizes.row * (1 + rows.bytes),
        whole.high - sizes.row * (1 + rows.low),
    )
    found = _with_copies(base, sizes, graph, at)
    found = _by_build(found, sizes, graph, at)
    if not at.attends:
        found = Bounds(min(found.low, base.low - sizes.masks), base.bytes, found.high)
    return _with_copied_inputs(_with_streams(found, sizes, at), sizes, at)


def _unmixed_rows(graph: Graph, version: str | None) -> Bounds:
    """Hidden rows less than in a graph whose batch may mix tokens and embeddings."""
    both = _MIXED - _SELECTED
    if graph.shape.pools_tokens or not builds.MIXED_BATCH.maybe(version):  # DeepSeek-V4 never mixes
        return Bounds(both, both, both)
    # Without a build's number the newest rules count, but the low end stays that of all.
    return Bounds(0, 0, 0 if version and builds.MIXED_BATCH.surely(version) else both)


def mtp_buffer(graph: Graph, slots: Slots, *, flash: bool, on_host: bool) -> Bounds:
    """Bytes of the buffer of the model's own MTP block, a graph of one layer (src/models/qwen35.cpp): the
    mask beside attention, then the feed-forward, which takes the mask's place where that is wide enough.

    648.03 MiB at 262,144 tokens (ubatch 1,024) and 520.06 at 8,192 (2,048) in two public logs, both met.
    """
    sizes = sizes_of(graph, slots, flash=flash)
    shape, less = graph.shape, (_MIXED - _SELECTED + (not on_host)) * sizes.row
    inner = 4 * sizes.rows * max(shape.intermediate_size, shape.expert_len * shape.num_experts_per_tok, 1)
    fits = min(sizes.masks // inner, _MATRICES) * inner
    attention = 4 * sizes.rows * graph.mixer.low - less
    widest = 4 * sizes.rows * graph.block.high - less
    low = max(sizes.masks + attention, widest) + sizes.fixed
    count = max(sizes.masks + attention, sizes.masks + widest - fits) + sizes.fixed
    return Bounds(low, count, max(count, sizes.masks + widest + sizes.fixed))


def host_buffer(graph: Graph, slots: Slots, at: Situation, *, computes: bool) -> Bounds:
    """Bytes of the host's buffer: masks and inputs. ``computes``: blocks or attention are worked out there,
    of which a long prompt leaves little."""
    sizes = sizes_of(graph, slots, flash=at.flash)
    rows = _input_rows(graph, at.version)
    masks = _masks(sizes, at)
    own = 4 * sizes.rows * graph.shape.per_layer_len
    low = masks.low + rows.low * sizes.row
    count = masks.bytes + rows.bytes * sizes.row + sizes.fixed + own
    high = masks.high + rows.high * sizes.row + sizes.fixed + MIB + own
    if computes:
        high += compute_buffer(graph, slots, flash=at.flash).high
    if at.pipeline:
        more = (_COPIES - 1) * (sizes.masks + _SELECTED * sizes.row)
        count, high = count + more, high + more
    return Bounds(low, count, high)


def _masks(sizes: Sizes, at: Situation) -> Bounds:
    """Flash attention's masks are f16, or f32 in builds that cast them on the device."""
    twice = 2 * sizes.masks
    if not at.flash or builds.HALF_MASK.surely(at.version):
        return Bounds(sizes.masks, sizes.masks, sizes.masks if at.version else twice)
    return Bounds(sizes.masks if builds.HALF_MASK.maybe(at.version) else twice, twice, twice)


def _input_rows(graph: Graph, version: str | None) -> Bounds:
    """Hidden rows among the inputs of the host."""
    if graph.shape.pools_tokens:
        return Bounds(_ONE_ROW, _SELECTED, _SELECTED)
    low = _SELECTED if builds.SELECTED_INPUT.surely(version) and version else _ONE_ROW
    if builds.MIXED_BATCH.surely(version):
        return Bounds(_MIXED if version else low, _MIXED, _MIXED)
    if builds.MIXED_BATCH.maybe(version):
        return Bounds(low, _MIXED, _MIXED)
    return Bounds(low, _SELECTED, _SELECTED)


def _with_copies(base: Bounds, sizes: Sizes, graph: Graph, at: Situation) -> Bounds:
    """Attention beside f16 copies of the caches it reads, where those are reserved in the buffer."""
    if not (at.flash and at.copies and builds.COPIES_RESERVED.maybe(at.version)):
        return base
    low, high = (
        sizes.masks + at.copies + sizes.fixed + 4 * sizes.rows * values - sizes.row
        for values in (graph.attention.low, graph.attention.high)
    )
    with_copies = Bounds(max(base.low, low), max(base.bytes, high), max(base.high, high))
    # Without a build's number the newest rules count, but the low end stays that of all.
    surely = at.version is not None and builds.COPIES_RESERVED.surely(at.version)
    return with_copies if surely else Bounds(base.low, with_copies.bytes, with_copies.high)


def _by_build(found: Bounds, sizes: Sizes, graph: Graph, at: Situation) -> Bounds:
    """What older builds reserve beside: masks in f32 until they are cast, logits of a whole ubatch."""
    block = 4 * sizes.rows * graph.block.high
    spans = []
    if at.flash and not builds.HALF_MASK.surely(at.version):
        spans.append((3 * sizes.masks + sizes.row, 3 * sizes.masks + block, builds.HALF_MASK))
    if not builds.FEW_LOGITS.surely(at.version):
        logits = 4 * sizes.rows * graph.shape.vocab_size
        spans.append((logits + sizes.row, logits + block, builds.FEW_LOGITS))
    low, count, high = found.low, found.bytes, found.high
    for least, most, change in spans:
        low = low if change.maybe(at.version) else max(low, least)
        count, high = max(count, least), max(high, most)
    if not builds.SET_ROWS.surely(at.version):
        low -= min(low, sizes.row + sizes.indices + sizes.fixed)  # values were stored without indices
    return Bounds(low, count, high)


def _with_streams(found: Bounds, sizes: Sizes, at: Situation) -> Bounds:
    """Matrices of the host that a long prompt copies here, one or two at a time."""
    if not at.streamed:
        return found
    count = found.bytes + at.streamed
    if at.experts:
        beside = sizes.masks + _ROWS_BESIDE * sizes.row
        count = max(found.bytes, beside + _STREAMED * at.streamed)
    return Bounds(found.low, count, max(count, found.high + _STREAMED * at.streamed))


def _with_copied_inputs(found: Bounds, sizes: Sizes, at: Situation) -> Bounds:
    """Inputs and what the devices hand on, four times (two made devices, one model)."""
    if not at.pipeline:
        return found
    least = (_COPIES - 1) * (sizes.masks + _SELECTED * sizes.row)
    most = _COPIES * (sizes.masks + sizes.fixed) + 11 * sizes.row
    return Bounds(found.low + least, found.bytes + (least + most) // 2, found.high + most)
