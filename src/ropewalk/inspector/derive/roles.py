"""What a tensor of a block is for: its part of the block and its role there, by name.

One grammar for the names of transformers, of original repositories and of GGUF files.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

Part = Literal["attention", "cross", "recurrent", "feed_forward", "other"]

_CROSS = re.compile(r"(?:^|\.)(?:cross_?attn\w*|cross_?attention|encoder_attn|encdecattention)(?:\.|$)")
_RECURRENT = re.compile(
    r"(?:^|\.)(?:mamba\w*|linear_attn|ssm\w*|shortconv|short_conv|conv|conv_?1d|rg_lru|time_\w+|a_log|d|dt_bias"
    r"|dt_proj|x_proj|[qkv]_conv1?d?)(?:\.|$)"
)
_ATTENTION = re.compile(
    r"(?:^|\.)(?:\w*attn|\w*attention|attn_\w+|att|att_proj|attn_out|mixer|temporal_block|indexer\w*)(?:\.|$)"
)
_FEED_FORWARD = re.compile(
    r"(?:^|\.)(?:mlp\w*|feed_forward\w*|ffn\w*|ff_\w+|block_sparse_moe|moe\w*|\w*experts?\w*|shared_mlp|router"
    r"|densereludense|fc[12]|intermediate|channel_mix\w*|(?:gate|up|down)_proj)(?:\.|$)|^output\.dense(?:\.|$)"
)
_ATTENTION_EXPERTS = re.compile(r"(?:^|\.)self_attention\.experts\.")  # JetMoE
_NORM = re.compile(r"(?:norm\w*|ln_\w+)(?:\.weight|\.bias|\.scale)?$")
_INNER_NORM = re.compile(r"(?:^|[._])(?:q|k|v|q_a|kv_a|kv|query|key)_?(?:layer)?norm")

# Last component of the module path to role, by part.
_ATTENTION_LEAVES = {
    "q": "q_proj q wq query q_lin query_proj attn_q",
    "k": "k_proj k wk key k_lin key_proj attn_k",
    "v": "v_proj v wv value v_lin value_proj attn_v",
    "qkv": "qkv_proj qkv query_key_value wqkv c_attn w_pack att_proj attn_qkv",
    "kv": "wkv kv_proj attn_kv",
    "o": "o_proj out_proj wo o dense c_proj attn_output attn_out attn_o out_lin",
    "q_norm": "q_norm q_layernorm attn_q_norm query_norm query_layernorm",
    "k_norm": "k_norm k_layernorm attn_k_norm key_norm key_layernorm",
    "q_a": "q_a_proj wq_a attn_q_a",
    "q_b": "q_b_proj wq_b attn_q_b",
    "kv_a": "kv_a_proj_with_mqa kv_a_proj wkv_a attn_kv_a_mqa",
    "kv_b": "kv_b_proj wkv_b attn_kv_b",
    "k_b": "attn_k_b k_b_proj",
    "v_b": "attn_v_b v_b_proj",
    "q_a_norm": "q_a_layernorm q_a_norm attn_q_a_norm",
    "kv_a_norm": "kv_a_layernorm kv_a_norm attn_kv_a_norm",
    "sinks": "sinks attn_sinks",
}
_FEED_FORWARD_LEAVES = {
    "gate": "gate_proj w1 ffn_gate ffn_gate_exps ffn_gate_shexp wi_0 linear_v",
    "up": "up_proj w3 ffn_up ffn_up_exps ffn_up_shexp wi_1 c_fc fc1 wi dense_h_to_4h",
    "down": "down_proj w2 ffn_down ffn_down_exps ffn_down_shexp wo c_proj fc2 dense_4h_to_h output_linear",
    "gate_up": "gate_up_proj ffn_gate_up ffn_gate_up_exps input_linear ff_proj",
    "router": "router gate ffn_gate_inp layer",
}
_RECURRENT_LEAVES = {
    "conv": "conv1d conv_1d ssm_conv1d conv k_conv1d ssm_conv1d_k",
    "a_log": "a_log ssm_a",
    "out_proj": "out_proj ssm_out",
}
_NORM_LEAVES = {
    "norm": "input_layernorm ln_1 attn_norm attention_norm norm_1 self_attn_layer_norm norm norm1",
}


def _by_leaf(leaves: dict[str, str]) -> dict[str, str]:
    return {leaf: role for role, names in leaves.items() for leaf in names.split()}


_ROLES: dict[str, dict[str, str]] = {
    "attention": _by_leaf(_ATTENTION_LEAVES),
    "cross": _by_leaf(_ATTENTION_LEAVES),
    "feed_forward": _by_leaf(_FEED_FORWARD_LEAVES),
    "recurrent": _by_leaf(_RECURRENT_LEAVES),
    "other": _by_leaf(_NORM_LEAVES),
}


@lru_cache(maxsize=4096)
def part_of(name: str) -> Part:
    """The part of the block that a tensor belongs to; ``other`` for the norms between the parts."""
    lower = name.lower()
    if _NORM.search(lower) and not _INNER_NORM.search(lower):
        return "other"
    if _CROSS.search(lower):
        return "cross"
    if _RECURRENT.search(lower):
        return "recurrent"
    if _ATTENTION_EXPERTS.search(lower):
        return "attention"
    if _FEED_FORWARD.search(lower):
        return "feed_forward"
    return "attention" if _ATTENTION.search(lower) else "other"


@lru_cache(maxsize=4096)
def role_of(name: str) -> str | None:
    """The role of a weight in its block (``q``, ``kv_a``, ``cross_k``, ``expert_up``, ...); None if none."""
    module = name.removesuffix(".weight").lower()
    module = module.removesuffix(".linear")  # Inkling 2: q_proj.linear beside q_proj.norm
    part = part_of(name)
    role = _ROLES[part].get(module.rpartition(".")[2])
    if role is None:
        return None
    if part == "cross":
        return f"cross_{role}"
    if "indexer" in module:
        return f"indexer_{role}"
    return _expert_prefix(module) + role if part == "feed_forward" else role


def _expert_prefix(module: str) -> str:
    if "shared" in module or module.endswith("_shexp"):
        return "shared_"
    return "expert_" if "experts." in module or module.endswith(("_exps", ".*")) else ""
