"""What a tensor of a block is for: its part of the block and its role there, by name."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

Part = Literal["attention", "cross", "recurrent", "feed_forward", "other"]

_CROSS = re.compile(r"(?:^|\.)(?:cross_?attn|cross_?attention|encoder_attn|encdecattention|cross_attn_\w+)\b")
_RECURRENT = re.compile(
    r"(?:^|\.)(?:mamba\w*|linear_attn|ssm\w*|shortconv|short_conv|conv|conv1d|rg_lru|temporal_block\.rg_lru"
    r"|time_mix\w*|time_\w+|a_log|dt_bias|dt_proj|x_proj|[qkv]_conv1d?)(?:\.|$)"
)
_ATTENTION = re.compile(
    r"(?:^|\.)(?:\w*attn|\w*attention|att|mixer|attn_\w+|temporal_block|att_proj|attn_out)(?:\.|$)"
)
_FEED_FORWARD = re.compile(
    r"(?:^|\.)(?:mlp\w*|feed_forward\w*|ffn\w*|ff_\w+|block_sparse_moe|moe\w*|\w*experts?\w*|shared_mlp"
    r"|densereludense|fc[12]|intermediate|channel_mix\w*|(?:gate|up|down)_proj)(?:\.|$)|^output\.dense(?:\.|$)"
)
_NORM = re.compile(r"(?:norm\w*|ln_\w+)(?:\.weight|\.bias|\.scale)?$")
_INNER_NORM = re.compile(r"(?:^|[._])(?:q|k|v|q_a|kv_a|kv|query|key)_?(?:layer)?norm")

# Leaf of the module path to role, within attention.
_LEAVES = {
    "q": "q_proj q wq query q_lin query_proj attn_q",
    "k": "k_proj k wk key k_lin key_proj attn_k",
    "v": "v_proj v wv value v_lin value_proj attn_v",
    "qkv": "qkv_proj qkv query_key_value wqkv c_attn w_pack att_proj attn_qkv",
    "o": "o_proj out_proj wo o dense c_proj attn_output attn_out out_lin",
    "q_norm": "q_norm q_layernorm attn_q_norm query_norm",
    "k_norm": "k_norm k_layernorm attn_k_norm key_norm",
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
_ATTENTION_ROLES = {leaf: role for role, leaves in _LEAVES.items() for leaf in leaves.split()}
_FEED_FORWARD_LEAVES = {
    "gate": "gate_proj w1 ffn_gate wi_0 linear_v",
    "up": "up_proj w3 ffn_up wi_1 c_fc fc1 wi dense_h_to_4h",
    "down": "down_proj w2 ffn_down wo c_proj fc2 dense_4h_to_h output_linear",
    "gate_up": "gate_up_proj ffn_gate_up input_linear ff_proj",
    "router": "router gate ffn_gate_inp layer",
}
_FEED_FORWARD_ROLES = {leaf: role for role, leaves in _FEED_FORWARD_LEAVES.items() for leaf in leaves.split()}

_NORM_ROLES = dict.fromkeys(
    ("input_layernorm", "ln_1", "attn_norm", "attention_norm", "norm_1", "self_attn_layer_norm", "norm"),
    "norm",
)
_RECURRENT_LEAVES = {
    "conv": "conv1d conv_1d ssm_conv1d conv shortconv.conv",
    "a_log": "a_log ssm_a",
    "d": "d ssm_d",
    "dt": "dt_bias ssm_dt",
    "in_proj": "in_proj ssm_in in_proj_qkvz in_proj_qkv",
    "x_proj": "x_proj ssm_x",
    "out_proj": "out_proj ssm_out",
}
_RECURRENT_ROLES = {leaf: role for role, leaves in _RECURRENT_LEAVES.items() for leaf in leaves.split()}


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
    if _FEED_FORWARD.search(lower):
        return "feed_forward"
    return "attention" if _ATTENTION.search(lower) else "other"


@lru_cache(maxsize=4096)
def role_of(name: str) -> str | None:
    """The role of a weight in its block (``q``, ``kv_a``, ``cross_k``, ``expert_up``, ...); None if none."""
    module = name.removesuffix(".weight").lower()
    leaf = module.rpartition(".")[2]
    part = part_of(name)
    if part == "other":
        return _NORM_ROLES.get(leaf)
    if part == "recurrent":
        return _RECURRENT_ROLES.get(leaf)
    if part == "feed_forward":
        role = _FEED_FORWARD_ROLES.get(leaf)
        return f"{_expert_prefix(module)}{role}" if role else None
    role = _ATTENTION_ROLES.get(leaf)
    return f"cross_{role}" if role and part == "cross" else role


def _expert_prefix(module: str) -> str:
    if "shared" in module or module.endswith("_shexp"):
        return "shared_"
    return "expert_" if "experts" in module or module.endswith("_exps") else ""
