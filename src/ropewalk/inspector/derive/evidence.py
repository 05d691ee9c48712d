"""What the tensors prove about each block: widths of the projections, norms, experts, states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ropewalk.inspector.derive.names import Row
from ropewalk.inspector.derive.packing import PackingHint, Weight, unpack
from ropewalk.inspector.derive.roles import part_of, role_of

# The tensors whose shapes show the heads of a block, by role, the plainest first.
OBSERVED_IN: dict[str, tuple[str, ...]] = {
    "num_attention_heads": ("q", "o", "qkv"),
    "num_key_value_heads": ("k", "qkv"),
    "head_dim": ("k_norm", "k", "qkv"),
    "v_head_dim": ("v", "qkv"),
}
_MIXING = frozenset({"attention", "cross", "recurrent"})
Mixer = Literal["attention", "latent", "recurrent", "hybrid", "cross", "queries", "none", "unknown"]


@dataclass(frozen=True, slots=True)
class BlockEvidence:
    """The logical weights of one block, and those with a known role by role.

    ``hides_mixer``: something else than a norm is stored of the part that mixes tokens, whatever it is.
    """

    weights: tuple[Weight, ...]
    roles: Mapping[str, Weight]
    hides_mixer: bool = False

    def out(self, role: str, hidden_size: int | None) -> int | None:
        """Output features of a projection from the residual stream; None where it is absent."""
        return self._other_side(role, hidden_size, stream_side=-1)

    def inputs(self, role: str, hidden_size: int | None) -> int | None:
        """Input features of a projection back to the residual stream; None where it is absent."""
        return self._other_side(role, hidden_size, stream_side=-2)

    def _other_side(self, role: str, hidden_size: int | None, *, stream_side: int) -> int | None:
        """The side of a matrix that is not the residual stream's; GPT-2 stores its matrices transposed."""
        weight = self.roles.get(role)
        if weight is None:
            return None
        shape = weight.shape
        if len(shape) == 1:  # packed flat: only the number of elements is known
            return shape[0] // hidden_size if hidden_size and shape[0] % hidden_size == 0 else None
        if len(shape) != 2:
            return None
        other_side = -3 - stream_side
        transposed = shape[stream_side] != hidden_size and shape[other_side] == hidden_size
        return shape[stream_side] if transposed else shape[other_side]

    def width(self, role: str) -> int | None:
        """Length of a vector, as that of a norm; None where it is absent."""
        weight = self.roles.get(role)
        return weight.shape[0] if weight is not None and len(weight.shape) == 1 else None

    @property
    def mixer(self) -> Mixer:
        """What mixes the tokens of this block; ``none`` only where all its matrices are feed-forward."""
        has_keys = any(role in self.roles for role in ("k", "qkv", "kv"))
        if self._keeps_state():
            return "hybrid" if has_keys and not self._convolves_keys() else "recurrent"
        if "kv_a" in self.roles:
            split = "k_b" in self.roles and "v_b" in self.roles
            return "latent" if split or "kv_b" in self.roles else "attention"
        if has_keys:
            return "attention"
        if "cross_k" in self.roles:
            return "cross"
        if "q" in self.roles:
            return "queries"
        matrices = [weight.name for weight in self.weights if len(weight.shape) > 1]
        is_feed_forward = matrices and all(part_of(name) == "feed_forward" for name in matrices)
        return "none" if is_feed_forward and not self.hides_mixer else "unknown"

    def _convolves_keys(self) -> bool:
        """Kimi delta attention: the keys are those of the state."""
        convolution = self.roles.get("conv")
        return convolution is not None and any(n in convolution.name for n in ("k_conv1d", "conv1d_k"))

    def _keeps_state(self) -> bool:
        if "conv" in self.roles or "a_log" in self.roles:
            return True
        return any(part_of(weight.name) == "recurrent" and "time_" in weight.name for weight in self.weights)


def observed_in(evidence: Mapping[int, BlockEvidence], prefix: str, *roles: str) -> str | None:
    """Full name of the first tensor that has one of these roles, the first role preferred."""
    for role in roles:
        for index, block in evidence.items():
            if role in block.roles:
                return f"{prefix}{index}.{block.roles[role].name}"
    return None


def block_evidence(rows: Sequence[Row], hint: PackingHint) -> BlockEvidence:
    """What the rows of one block prove."""
    weights = unpack(rows, hint)
    roles: dict[str, Weight] = {}
    for weight in weights:
        role = role_of(weight.name)
        if role is not None:
            roles.setdefault(role, weight)
    _settle_mixer(roles)
    hides = any(part_of(row.name) in _MIXING and "norm" not in row.name for row in rows)
    return BlockEvidence(tuple(weights), roles, hides)


def _settle_mixer(roles: dict[str, Weight]) -> None:
    """Names that mean attention elsewhere belong to the state where a block has one and no keys.

    ``mixer.out_proj`` of Mamba, ``attn_qkv`` of a delta net in a GGUF file.
    """
    if "conv" not in roles and "a_log" not in roles:
        return
    if "k" not in roles:
        fused = roles.get("qkv")
        if fused is not None and fused.name.startswith("attn_qkv") and "q" not in roles:
            del roles["qkv"]
        if "o" in roles and "out_proj" not in roles and "q" not in roles:
            roles["out_proj"] = roles.pop("o")


def layer_evidence(layers: Mapping[int, list[Row]], hint: PackingHint) -> dict[int, BlockEvidence]:
    """The evidence of every block; equal blocks share one object."""
    seen: dict[tuple[Row, ...], BlockEvidence] = {}
    found: dict[int, BlockEvidence] = {}
    for number, rows in layers.items():
        key = tuple(rows)
        if key not in seen:
            seen[key] = block_evidence(rows, hint)
        found[number] = seen[key]
    return found
