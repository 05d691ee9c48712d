"""What vLLM's releases do differently about memory: the rules, and who asks for them.

Read in 0.19.0, 0.22.0, 0.26.0, 0.29.0 and 0.32.0: where a change lies between two of them, the first
release behind the older one is taken, and a version between them is one of which it is not known.
"""

from __future__ import annotations

from typing import Literal

from ropewalk.planner.records import MambaCacheMode
from ropewalk.planner.rope.versions import VersionRule, has, parse_version
from ropewalk.planner.shape import ModelShape

Runner = Literal["v1", "v2", "unknown"]

UTILIZATION_92 = VersionRule(
    "utilization_92",
    "vllm",
    (0, 20, 0),
    "takes 0.92 of the device by default; before, 0.9",
    "config/cache.py of 0.19.0 and 0.22.0",
)
GRAPHS_IN_SHARE = VersionRule(
    "graphs_in_share",
    "vllm",
    (0, 21, 0),
    "the estimated CUDA graphs come out of the share; before, they were taken beside it",
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS; its log: default since v0.21.0",
)
SAMPLER_UNSORTED = VersionRule(
    "sampler_unsorted",
    "vllm",
    (0, 17, 0),
    "top-k and top-p without sorting the logits",
    "v1/sample/ops/topk_topp_triton.py of 0.19.0; logs of 0.16 and 0.17",
)
SAMPLER_FLASHINFER = VersionRule(
    "sampler_flashinfer",
    "vllm",
    (0, 20, 0),
    "FlashInfer's sampler where it runs",
    "vllm-project/vllm#40376; envs.py of 0.19.0 and 0.22.0",
)
LARGER_CONTEXT = VersionRule(
    "larger_context",
    "vllm",
    (0, 18, 0),
    "0.25 GiB beside torch on one rank; before, 0.13",
    "logs of 0.17 and 0.18 of one start (H100)",
)
HYBRID_PREFIX_CACHING = VersionRule(
    "hybrid_prefix_caching",
    "vllm",
    (0, 27, 0),
    "prefix caching of hybrids is on by default; before, it was asked for",
    "engine/arg_utils.py of 0.26.0 and 0.29.0",
)
PREFILL_CHECKPOINTS = VersionRule(
    "prefill_checkpoints",
    "vllm",
    (0, 27, 0),
    "a prefill of Mamba2 leaves a checkpoint, which has a state's page of its own",
    "v1/kv_cache_interface.py of 0.26.0 and 0.29.0",
)
SEQUENCES_BY_BLOCKS = VersionRule(
    "sequences_by_blocks",
    "vllm",
    (0, 20, 0),
    "stops where more sequences may run than a hybrid's pool has blocks",
    "config/compilation.py of 0.19.0 and 0.22.0",
)
IN_FLIGHT_STEPS = VersionRule(
    "in_flight_steps",
    "vllm",
    (0, 23, 0),
    "windows hold the tokens of every step in flight; before, those of one",
    "v1/kv_cache_interface.py of 0.22.0 and 0.26.0 (max_in_flight_tokens)",
)
SPARSE_AUTO_BF16 = VersionRule(
    "sparse_auto_bf16",
    "vllm",
    (0, 12, 0),
    "keeps latent rows beside an indexer in 16 bits unless told; before, as fp8_ds_mla",
    "vllm-project/vllm#25988 (0.11), #27532",
)
GLM_FP8_ON_BLACKWELL = VersionRule(
    "glm_fp8_on_blackwell",
    "vllm",
    (0, 27, 0),
    "keeps the cache of GLM-5 in fp8 on B200s unless told; before, in 16 bits",
    "model_executor/models/config.py of 0.26.0 and 0.32.0",
)
LARGE_BATCHES = VersionRule(
    "large_batches",
    "vllm",
    (0, 27, 0),
    "16,384 batched tokens by default on devices of 160 GiB and more; before, 8,192 as from 70 GiB on",
    "engine/arg_utils.py of 0.26.0 and 0.29.0",
)
STATES_ALL = VersionRule(
    "states_aligned",
    "vllm",
    (0, 27, 0),
    "prefix caching keeps two states of Mamba2 too (align); before, one for every block (all)",
    "model_executor/models/config.py of 0.26.0 and 0.29.0",
)
STATES_GONE = VersionRule(
    "states_all_gone",
    "vllm",
    (0, 30, 0),
    "--mamba-cache-mode all is gone",
    "config/cache.py of 0.29.0 and 0.32.0",
)
MOST_DRAFTED = 1024  # tokens per step; no engine drafts nearly as many
_RUNNER_DENSE = ((0, 23, 0), (0, 26, 0))  # first that may, first that is read to (vllm-project/vllm#44443)
_RUNNER_ALL = ((0, 27, 0), (0, 29, 0))


def default_utilization(version: str | None) -> float:
    """``--gpu-memory-utilization`` of a server that is not told."""
    return 0.92 if has(UTILIZATION_92, version) else 0.9


def caches_prefixes(shape: ModelShape, version: str | None, asked: bool | None) -> bool:
    """Whether a server reuses prefixes: as asked, else as the version does by default.

    Models that keep nothing but states never do (config/model.py, ``is_prefix_caching_supported``).
    """
    if not any(group.head_dim_k for group in shape.layers):
        return False
    if asked is not None:
        return asked
    return not any(group.state for group in shape.layers) or has(HYBRID_PREFIX_CACHING, version)


def state_mode(
    shape: ModelShape, version: str | None, *, caches: bool, asked: MambaCacheMode | None
) -> MambaCacheMode:
    """How states are kept (``mamba_cache_mode``): none without prefix caching whatever is asked for; ``all``
    only where the model's kernels can (MambaModelConfig, models/config.py)."""
    if not caches:
        return "none"
    can = not shape.delta_net and not has(STATES_GONE, version)
    if asked in (None, "none"):
        return "all" if can and not has(STATES_ALL, version) else "align"
    return "all" if asked == "all" and can else "align"


def runner_of(shape: ModelShape, version: str | None) -> Runner:
    """Which model runner profiles the model: the first draws a sample of every sequence, the second hands
    the logits on as they are."""
    parsed = parse_version(version, "vllm")
    first, read = _RUNNER_ALL if shape.num_experts or any(g.state for g in shape.layers) else _RUNNER_DENSE
    if parsed is None or parsed >= read:
        return "v2"
    return "v1" if parsed < first else "unknown"
