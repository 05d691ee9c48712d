"""What a recurrent layer keeps per sequence, from its fields and its tensors.

Shapes are those of vLLM 0.33 before any split over devices; a short convolution of width k keeps k - 1
columns. Mamba 2 and gated delta nets are one form: groups and state size of the one are key heads and key
size of the other.
"""

from __future__ import annotations

from math import prod

from ropewalk.inspector.derive.evidence import BlockEvidence
from ropewalk.inspector.derive.families import family_of
from ropewalk.inspector.derive.heads import Heads
from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.layer_kinds import StateTensor


def recurrent_state(
    settings: Settings, evidence: BlockEvidence | None, heads: Heads | None = None
) -> tuple[StateTensor, ...]:
    """The state tensors of one recurrent layer; empty where they are unknown, or one would hold nothing.

    ``heads`` are those of the attention beside it.
    """
    found = _of_kind(settings, evidence, heads)
    return found if all(prod(tensor.shape) for tensor in found) else ()


def _of_kind(
    settings: Settings, evidence: BlockEvidence | None, heads: Heads | None
) -> tuple[StateTensor, ...]:
    family = family_of(settings.model_type)
    own = family.state(settings) if family.state else None
    if own is not None:
        return own
    if settings.integer("conv_l_cache"):
        return _short_convolution(settings)
    if settings.model_type == "recurrent_gemma" or settings.integer("lru_width"):
        return _linear_recurrence(settings)
    if heads is not None and settings.raw("d_rel") is not None:
        return _convolutions(settings, heads)
    if _is_kda(settings):
        return _delta_attention(settings)
    return _state_space(settings, evidence)


def _short_convolution(settings: Settings) -> tuple[StateTensor, ...]:
    """LFM2: the last inputs of a convolution over the hidden channels."""
    width, hidden = settings.integer("conv_l_cache"), settings.integer("hidden_size")
    return (StateTensor("conv", (width - 1, hidden)),) if width and hidden else ()


def _linear_recurrence(settings: Settings) -> tuple[StateTensor, ...]:
    """RecurrentGemma: a convolution and one gated value per channel."""
    width = settings.integer("lru_width") or settings.integer("hidden_size")
    kernel = settings.integer("ssm_conv_kernel")
    if not width or not kernel:
        return ()
    return (StateTensor("conv", (kernel - 1, width)), StateTensor("rg_lru", (width,)))


def _is_kda(settings: Settings) -> bool:
    return any(
        settings.raw(key) is not None for key in ("linear_attn_config", "kda.head_dim", "linear_head_dim")
    )


def _convolutions(settings: Settings, heads: Heads) -> tuple[StateTensor, ...]:
    """Inkling: short convolutions over keys, over values, and after each half of the block."""
    kernel, hidden = settings.integer("ssm_conv_kernel"), settings.integer("hidden_size")
    keys, size = heads.num_key_value_heads, heads.head_dim_k
    if not (kernel and hidden and keys and size):
        return ()
    return (StateTensor("conv", (kernel - 1, 2 * keys * size + 2 * hidden)),)


def _delta_attention(settings: Settings) -> tuple[StateTensor, ...]:
    """Kimi delta attention: convolutions over queries, keys and values, and one square matrix per head."""
    heads = settings.integer("ssm_num_heads") or settings.integer("num_attention_heads")
    size, kernel = settings.integer("ssm_head_dim"), settings.integer("ssm_conv_kernel")
    if not heads or not size or not kernel:
        return ()
    channels = heads * size
    return (StateTensor("conv", (kernel - 1, 3 * channels)), StateTensor("ssm", (heads, size, size)))


def _state_space(settings: Settings, evidence: BlockEvidence | None) -> tuple[StateTensor, ...]:
    """Mamba 1 and 2, gated delta nets; the widths of the tensors win over the fields."""
    convolution = evidence.roles.get("conv") if evidence else None
    if convolution is not None and not convolution.shape:
        convolution = None
    kernel = prod(convolution.shape[1:]) if convolution else settings.integer("ssm_conv_kernel")
    heads = _num_heads(settings, evidence)
    inner = _inner_size(settings, evidence, heads)
    size = settings.integer("ssm_state_size")
    if not kernel or not inner:
        return ()
    if not heads:  # Mamba 1
        decay = evidence.roles.get("a_log") if evidence else None
        size = decay.shape[-1 if decay.shape[0] == inner else 0] if decay and decay.shape else size
        return (_conv(kernel, inner), StateTensor("ssm", (inner, size))) if size else ()
    channels = convolution.shape[0] if convolution and convolution.shape else None
    groups = settings.integer("ssm_num_groups") or 1
    if channels is None and size:
        channels = inner + 2 * groups * size
    if size is None and channels and (channels - inner) % (2 * groups) == 0:
        size = (channels - inner) // (2 * groups)
    if not channels or not size:
        return ()
    return (_conv(kernel, channels), StateTensor("ssm", (heads, inner // heads, size)))


def _conv(kernel: int, channels: int) -> StateTensor:
    return StateTensor("conv", (kernel - 1, channels))


def _num_heads(settings: Settings, evidence: BlockEvidence | None) -> int | None:
    """One decay per head in Mamba 2 and delta nets (a vector); per channel and state in Mamba 1."""
    decay = evidence.roles.get("a_log") if evidence else None
    if decay is not None:
        return prod(decay.shape) if sum(side > 1 for side in decay.shape) < 2 else None
    return settings.integer("ssm_num_heads") or _mamba2(settings, "num_heads")


def _mamba2(settings: Settings, key: str) -> int | None:
    """Mamba 2 calls the heads of its state ``num_heads`` and their size ``head_dim``."""
    value = settings.raw(key)
    is_state = family_of(settings.model_type).all_recurrent and isinstance(value, int)
    return value if is_state and not isinstance(value, bool) else None


def _inner_size(settings: Settings, evidence: BlockEvidence | None, heads: int | None) -> int | None:
    hidden = settings.integer("hidden_size")
    proven = evidence.inputs("out_proj", hidden) if evidence else None
    if proven:
        return proven
    size = settings.integer("ssm_head_dim") or _mamba2(settings, "head_dim")
    if heads and size:
        return heads * size
    declared = settings.integer("ssm_inner_size")
    if declared:
        return declared
    expand = settings.integer("ssm_expand")
    if not heads and settings.value("num_attention_heads") is None and settings.integer("intermediate_size"):
        return settings.integer("intermediate_size")  # Mamba and Falcon Mamba: the inner width
    return expand * hidden if expand and hidden else None
