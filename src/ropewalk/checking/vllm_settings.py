"""A parsed vLLM command as settings, and the length that vLLM serves for them.

Rules of vllm 0.32.0 and 0.33.0, config/model.py ``_get_and_verify_max_len``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ropewalk.checking.overrides import Overridden, apply_overrides
from ropewalk.checking.vllm_drafting import Drafting, drafting_of
from ropewalk.inspector.records import Inspection
from ropewalk.inspector.rope_blocks import Block, full_block, type_of
from ropewalk.planner.engines.vllm_settings import UTILIZATION_PERCENT
from ropewalk.planner.records import MambaCacheMode, PlanRequest
from ropewalk.planner.rope import versions
from ropewalk.planner.rope.situation import read_situation
from ropewalk.units import GIB

_WITHOUT_LENGTH = 2048  # where a config states no length at all, config/model.py:2575
ALLOW_LONG = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
CPU_CACHE = "VLLM_CPU_KVCACHE_SPACE"
PARTITION = "VLLM_PP_LAYER_PARTITION"
_STATE_MODES: tuple[MambaCacheMode, ...] = ("none", "align", "all")


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """What the flags say; None is unset. ``max_model_len`` -1 is ``auto``: what the memory allows.

    ``overrides`` is what reaches the config, ``meant`` the same with the rope flags that this version does
    not have any more. ``kv_cache_bytes`` is per device, by the flag or by the variable of the CPU backend,
    which overrules it (platforms/cpu.py:323). ``request`` is what is planned, but for the length;
    ``drafting`` says more of its drafting.
    """

    max_model_len: int | None
    max_num_seqs: int | None
    max_batched_tokens: int | None
    kv_cache_bytes: int | None
    kv_cache_dtype: str
    tensor_parallel: int
    pipeline_parallel: int
    utilization: float
    allow_long: bool
    disable_sliding_window: bool
    chunked_prefill: bool
    on_cpu: bool
    cache_from_variable: bool
    overrides: Mapping[str, Any]
    meant: Mapping[str, Any]
    request: PlanRequest
    drafting: Drafting


def settings_of(
    parsed: Mapping[str, Any], env: Mapping[str, str], *, version: str | None, on_cpu: bool = False
) -> VllmSettings:
    """The settings that lengths and memory depend on; values that vLLM refuses count as unset."""
    space = env.get(CPU_CACHE, "")
    given = parsed.get("--hf-overrides")
    overrides = dict(given) if isinstance(given, Mapping) else {}
    meant = {**overrides, **_rope_flags(parsed)}
    kv_bytes = int(space) * GIB if space.isdecimal() else _count(parsed, "--kv-cache-memory-bytes")
    return VllmSettings(
        max_model_len=-1 if parsed.get("--max-model-len") == -1 else _count(parsed, "--max-model-len"),
        max_num_seqs=_count(parsed, "--max-num-seqs"),
        max_batched_tokens=_count(parsed, "--max-num-batched-tokens"),
        kv_cache_bytes=kv_bytes,
        kv_cache_dtype=str(parsed.get("--kv-cache-dtype", "auto")),
        tensor_parallel=_count(parsed, "--tensor-parallel-size") or 1,
        pipeline_parallel=_count(parsed, "--pipeline-parallel-size") or 1,
        utilization=_number(parsed, "--gpu-memory-utilization", UTILIZATION_PERCENT / 100),
        allow_long=env.get(ALLOW_LONG, "0").strip().lower() in ("1", "true"),
        disable_sliding_window=bool(parsed.get("--disable-sliding-window")),
        chunked_prefill=parsed.get("--enable-chunked-prefill") is not False,
        on_cpu=on_cpu or CPU_CACHE in env,
        cache_from_variable=CPU_CACHE in env,
        overrides=overrides if versions.has(versions.ROPE_SCALING_FLAG_REMOVED, version) else meant,
        meant=meant,
        request=_request(parsed, env, kv_bytes=kv_bytes, on_cpu=on_cpu or CPU_CACHE in env, version=version),
        drafting=drafting_of(parsed),
    )


def _request(
    parsed: Mapping[str, Any],
    env: Mapping[str, str],
    *,
    kv_bytes: int | None,
    on_cpu: bool,
    version: str | None,
) -> PlanRequest:
    """What is planned for one request of a length that is still to be filled in."""
    stages, drafting = env.get(PARTITION, "").split(","), drafting_of(parsed)
    mode = parsed.get("--mamba-cache-mode")
    cache_type, caching = str(parsed.get("--kv-cache-dtype", "auto")), parsed.get("--enable-prefix-caching")
    return PlanRequest(
        context_len=1,
        engine="vllm",
        engine_version=version,
        device="cpu" if on_cpu else "gpu",
        cache_type_k=cache_type,
        cache_type_v=cache_type,
        tensor_parallel=_count(parsed, "--tensor-parallel-size") or 1,
        pipeline_parallel=_count(parsed, "--pipeline-parallel-size") or 1,
        data_parallel=_count(parsed, "--data-parallel-size") or 1,
        decode_context_parallel=_count(parsed, "--decode-context-parallel-size") or 1,
        expert_parallel=bool(parsed.get("--enable-expert-parallel")),
        nodes=_count(parsed, "--nnodes") or 1,
        layer_partition=tuple(map(int, stages)) if all(word.strip().isdecimal() for word in stages) else (),
        block_size=_count(parsed, "--block-size"),
        max_batched_tokens=_count(parsed, "--max-num-batched-tokens"),
        max_num_seqs=_count(parsed, "--max-num-seqs"),
        gpu_memory_utilization=_share(parsed),
        kv_cache_memory_bytes=kv_bytes,
        enforce_eager=bool(parsed.get("--enforce-eager")),
        dtype=str(parsed.get("--dtype", "auto")),
        quantization=parsed.get("--quantization"),
        prefix_caching=caching if isinstance(caching, bool) else None,
        language_model_only=bool(parsed.get("--language-model-only")),
        mtp=drafting.mtp,
        speculative=drafting.speculative,
        draft=drafting.draft,
        mamba_cache_mode=mode if mode in _STATE_MODES else None,
        mamba_ssm_cache_dtype=str(parsed.get("--mamba-ssm-cache-dtype", "auto")),
        cpu_offload_bytes=int(_number(parsed, "--cpu-offload-gb", 0.0) * GIB),
        kv_offloading_bytes=_offloaded(parsed),
        lora=(_count(parsed, "--max-loras") or 1) if parsed.get("--enable-lora") is True else 0,
        max_lora_rank=_count(parsed, "--max-lora-rank") or 16,
    )


def _share(parsed: Mapping[str, Any]) -> float | None:
    share = parsed.get("--gpu-memory-utilization")
    return float(share) if isinstance(share, int | float) and 0 < share <= 1 else None


def _offloaded(parsed: Mapping[str, Any]) -> int:
    """Host memory for blocks; another backend has a server of its own for them."""
    native = parsed.get("--kv-offloading-backend", "native") == "native"
    return int(_number(parsed, "--kv-offloading-size", 0.0) * GIB) if native else 0


def _rope_flags(parsed: Mapping[str, Any]) -> dict[str, Any]:
    """Older versions set two keys of the config by flags of their own."""
    names = {"--rope-scaling": "rope_scaling", "--rope-theta": "rope_theta"}
    return {key: parsed[flag] for flag, key in names.items() if flag in parsed}


@dataclass(frozen=True, slots=True)
class VllmServed:
    """What vLLM serves of a checkpoint: ``derived_len`` is the most that may be asked for.

    ``block`` is the rope block in force for the full-attention layers.
    """

    overridden: Overridden
    derived_len: int
    served_len: int
    block: Block

    @property
    def table_rows(self) -> int | None:
        """Rows of vLLM's table of cosines and sines where it does not follow the length served.

        YaRN has original x factor, ``dynamic`` as many as the config's length (rotary_embedding/, 0.33).
        """
        factor, original = self.block.get("factor"), self.block.get("original_max_position_embeddings")
        kind = type_of(self.block)
        if kind == "yarn" and factor and original:
            return -int(-original * factor // 1)
        if kind == "dynamic" and "alpha" not in self.block:
            return int(self.overridden.inspection.value("max_position_embeddings") or 0) or None
        return None


def serve(settings: VllmSettings, inspection: Inspection, *, version: str | None) -> VllmServed:
    """Apply the overrides and derive the length as vLLM does."""
    overridden = apply_overrides(inspection, settings.overrides, version=version)
    block = full_block(overridden.inspection.value("rope_parameters"))
    derived = _derived(settings, overridden.inspection, version)
    asked = settings.max_model_len
    if asked is None or asked < 1:
        served = derived
        if type_of(block) == "longrope":  # static: long factors would be used for every prompt
            served = int(block.get("original_max_position_embeddings") or derived)
    else:
        served = asked
    return VllmServed(overridden, derived, served, block)


def _derived(settings: VllmSettings, inspection: Inspection, version: str | None) -> int:
    """The config's length with its scaling; one that states none has whatever is asked for."""
    limit = read_situation(
        inspection, context_len=1, engine="vllm", engine_version=version, allow_unvalidated=False
    ).limit
    window = inspection.value("sliding_window")
    if settings.disable_sliding_window and isinstance(window, int):
        return min(window, limit or window)
    return limit or max(settings.max_model_len or 0, 0) or _WITHOUT_LENGTH


def _count(parsed: Mapping[str, Any], name: str) -> int | None:
    value = parsed.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _number(parsed: Mapping[str, Any], name: str, default: float) -> float:
    value = parsed.get(name)
    return float(value) if isinstance(value, int | float) else default
