"""``llama-server`` arguments to the parameters of the embedded engine, by one table.

Spelling and meaning follow llama.cpp b11434, ``common/arg.cpp``. What is not in the table is refused in
llama-server's own words: a flag that is silently dropped would serve another configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ropewalk.planner.engines.llama_places import EXPERTS

Setting = tuple[str, Any]  # dotted attribute of CommonParams, value


class FlagError(Exception):
    """An argument that llama-server would not take; the text is the line it would print."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: its spellings, the attributes that it sets, and how its value is read.

    ``read`` is None for a switch, which sets ``value``.
    """

    names: tuple[str, ...]
    attributes: tuple[str, ...]
    read: Callable[[str], Any] | None = None
    value: Any = True


def _choice(what: str, **values: int) -> Callable[[str], int]:
    """A named value of an enumeration; ``plus`` in a name stands for the sign."""
    table = {name.replace("plus", "+"): value for name, value in values.items()}

    def read(text: str) -> int:
        if text not in table:
            raise ValueError(f"{what}: {text}")
        return table[text]

    return read


def _whole(text: str) -> int:
    """An integer, and nothing after it: ``std::stoi`` would take ``128k`` for 128 without a word."""
    if not text.removeprefix("-").isdecimal():
        raise ValueError(f"stoi: {text!r} is not a whole number")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"stof: {text!r} is not a number") from None


def _inverse(text: str) -> float:
    """``--rope-scale N`` is kept as the frequency scale 1/N."""
    factor = _number(text)
    if factor == 0:
        raise ValueError("invalid value")
    return 1.0 / factor


def _layers(text: str) -> int:
    """A number of layers; ``auto`` and ``all`` are -1 and -2 (common/arg.cpp)."""
    return {"auto": -1, "all": -2}.get(text) or _whole(text)


def _names(text: str) -> set[str]:
    return set(text.split(","))


def _list(text: str) -> list[str]:
    return text.split(",")


def _experts_of(text: str) -> str:
    """Rules that keep the experts of the first blocks on the host (common/common.h:1236)."""
    return ",".join(f"blk\\.{block}{EXPERTS}=CPU" for block in range(_whole(text)))


def _shares(text: str) -> list[float]:
    return [_number(part) for part in text.split(",")]


# ggml/include/ggml.h enum ggml_type; the types that llama-server offers for the cache
_CACHE_TYPE = _choice(
    "Unsupported cache type",
    f32=0, f16=1, q4_0=2, q4_1=3, q5_0=6, q5_1=7, q8_0=8, iq4_nl=20, bf16=30,
)  # fmt: skip
# include/llama.h enums llama_flash_attn_type, llama_rope_scaling_type, llama_load_mode, llama_split_mode
_FLASH_ATTN = _choice("error: unknown value for --flash-attn", auto=-1, off=0, on=1)
_ROPE_SCALING = _choice("invalid value", none=0, linear=1, yarn=2)
_LOAD_MODE = _choice("invalid value", auto=-1, none=0, mmap=1, mlock=2, mmapplusmlock=3, dio=4)
_SPLIT_MODE = _choice("invalid value", none=0, layer=1, row=2, tensor=3)
_ON_OFF = _choice("error: unknown value, expected on or off", on=1, off=0)

_RULES = "tensor_buft_overrides"  # one text with commas, to which every flag adds

FLAGS = (
    Flag(("-m", "--model"), ("model.path",), str),
    Flag(("-a", "--alias"), ("model_alias",), _names),
    Flag(("-c", "--ctx-size"), ("n_ctx",), _whole),
    Flag(("-np", "--parallel"), ("n_parallel",), _whole),
    Flag(("-b", "--batch-size"), ("n_batch",), _whole),
    Flag(("-ub", "--ubatch-size"), ("n_ubatch",), _whole),
    Flag(("-n", "--predict", "--n-predict"), ("n_predict",), _whole),
    Flag(("-ctk", "--cache-type-k"), ("cache_type_k",), _CACHE_TYPE),
    Flag(("-ctv", "--cache-type-v"), ("cache_type_v",), _CACHE_TYPE),
    Flag(("-fa", "--flash-attn"), ("flash_attn_type",), _FLASH_ATTN),
    Flag(("-kvu", "--kv-unified"), ("kv_unified",)),
    Flag(("-no-kvu", "--no-kv-unified"), ("kv_unified",), value=False),
    Flag(("--kv-unified-per-slot",), ("kv_unified_per_slot",), _whole),
    Flag(("--swa-full",), ("swa_full",)),
    Flag(("-cram", "--cache-ram"), ("cache_ram_mib",), _whole),
    Flag(("-ctxcp", "--ctx-checkpoints", "--swa-checkpoints"), ("n_ctx_checkpoints",), _whole),
    Flag(("--cache-prompt",), ("cache_prompt",)),
    Flag(("--no-cache-prompt",), ("cache_prompt",), value=False),
    Flag(("--cache-idle-slots",), ("cache_idle_slots",)),
    Flag(("--no-cache-idle-slots",), ("cache_idle_slots",), value=False),
    Flag(("--cache-reuse",), ("n_cache_reuse",), _whole),
    Flag(("--context-shift",), ("ctx_shift",)),
    Flag(("--no-context-shift",), ("ctx_shift",), value=False),
    Flag(("-cb", "--cont-batching"), ("cont_batching",)),
    Flag(("-nocb", "--no-cont-batching"), ("cont_batching",), value=False),
    Flag(("-fit", "--fit"), ("fit_params",), _ON_OFF),
    Flag(("-fitc", "--fit-ctx"), ("fit_params_min_ctx",), _whole),
    Flag(("--rope-scaling",), ("rope_scaling_type",), _ROPE_SCALING),
    Flag(("--rope-scale",), ("rope_freq_scale",), _inverse),
    Flag(("--rope-freq-base",), ("rope_freq_base",), _number),
    Flag(("--rope-freq-scale",), ("rope_freq_scale",), _number),
    Flag(("--yarn-orig-ctx",), ("yarn_orig_ctx",), _whole),
    Flag(("--yarn-ext-factor",), ("yarn_ext_factor",), _number),
    Flag(("--yarn-attn-factor",), ("yarn_attn_factor",), _number),
    Flag(("--yarn-beta-slow",), ("yarn_beta_slow",), _number),
    Flag(("--yarn-beta-fast",), ("yarn_beta_fast",), _number),
    Flag(("-t", "--threads"), ("cpuparams.n_threads",), _whole),
    Flag(("-tb", "--threads-batch"), ("cpuparams_batch.n_threads",), _whole),
    Flag(("--threads-http",), ("n_threads_http",), _whole),
    Flag(("-ngl", "--gpu-layers", "--n-gpu-layers"), ("n_gpu_layers",), _layers),
    Flag(("-sm", "--split-mode"), ("split_mode",), _SPLIT_MODE),
    Flag(("-ts", "--tensor-split"), ("tensor_split",), _shares),
    Flag(("-mg", "--main-gpu"), ("main_gpu",), _whole),
    Flag(("-ot", "--override-tensor"), (_RULES,), str),
    Flag(("-cmoe", "--cpu-moe"), (_RULES,), value=f"{EXPERTS}=CPU"),
    Flag(("-ncmoe", "--n-cpu-moe"), (_RULES,), _experts_of),
    Flag(("-nkvo", "--no-kv-offload"), ("no_kv_offload",)),
    Flag(("-kvo", "--kv-offload"), ("no_kv_offload",), value=False),
    Flag(("-nr", "--no-repack"), ("no_extra_bufts",)),
    Flag(("--repack",), ("no_extra_bufts",), value=False),
    Flag(("-lm", "--load-mode"), ("load_mode",), _LOAD_MODE),
    Flag(("--check-tensors",), ("check_tensors",)),
    Flag(("--warmup",), ("warmup",)),
    Flag(("--no-warmup",), ("warmup",), value=False),
    Flag(("--host",), ("hostnames",), _list),
    Flag(("--port",), ("port",), _whole),
    Flag(("--reuse-port",), ("reuse_port",)),
    Flag(("-to", "--timeout"), ("timeout_read", "timeout_write"), _whole),
    Flag(("--api-key",), ("api_keys",), _list),
    Flag(("--cors-origins",), ("cors_origins",), str),
    Flag(("--metrics",), ("endpoint_metrics",)),
    Flag(("--props",), ("endpoint_props",)),
    Flag(("--slots",), ("endpoint_slots",)),
    Flag(("--no-slots",), ("endpoint_slots",), value=False),
    Flag(("--jinja",), ("use_jinja",)),
    Flag(("--no-jinja",), ("use_jinja",), value=False),
    Flag(("--chat-template",), ("chat_template",), str),
    Flag(("--no-ui", "--no-webui"), ("ui",), value=False),
    Flag(("-lv", "--verbosity", "--log-verbosity"), ("verbosity",), _whole),
)
BY_NAME: Mapping[str, Flag] = {name: flag for flag in FLAGS for name in flag.names}

# What llama-server starts from where CommonParams differs: slots are chosen by the server
# (tools/server/server.cpp:168: four that share one cache), and the port is 8080.
_SERVER_DEFAULTS = (("n_parallel", -1), ("port", 8080))


def parse(arguments: Sequence[str]) -> tuple[Setting, ...]:
    """Arguments to settings in the order in which they apply. Raises :class:`FlagError`."""
    settings: list[Setting] = list(_SERVER_DEFAULTS)
    rest = iter(arguments)
    for name in rest:
        flag = BY_NAME.get(name.replace("_", "-") if name.startswith("--") else name)
        if flag is None:
            raise FlagError(f"error: invalid argument: {name}")
        value = flag.value if flag.read is None else _value(name, flag.read, next(rest, None))
        settings += [(attribute, value) for attribute in flag.attributes]
    settings = _one_text(settings)
    threads = dict(settings).get("cpuparams.n_threads")
    if threads is not None and "cpuparams_batch.n_threads" not in dict(settings):
        settings.append(("cpuparams_batch.n_threads", threads))
    return tuple(settings)


def _one_text(settings: list[Setting]) -> list[Setting]:
    """The rules for tensors as one setting, in the order given."""
    rules = [value for attribute, value in settings if attribute == _RULES and value]
    rest = [setting for setting in settings if setting[0] != _RULES]
    return [*rest, (_RULES, ",".join(rules))] if rules else rest


def _value(name: str, read: Callable[[str], Any], text: str | None) -> Any:
    if text is None:
        raise FlagError(f'error while handling argument "{name}": expected value for argument')
    try:
        return read(text)
    except ValueError as error:
        raise FlagError(f'error while handling argument "{name}": {error}') from None
