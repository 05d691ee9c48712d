"""What the tensors prove about each block: widths of the projections, norms, experts, states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ropewalk.inspector.names import Row
from ropewalk.inspector.packing import PackingHint, Weight, unpack
from ropewalk.inspector.roles import part_of, role_of


@dataclass(frozen=True, slots=True)
class BlockEvidence:
    """The logical weights of one block, and those with a known role by role.

    ``names`` are the tensor names behind the roles, relative to the block.
    """

    weights: tuple[Weight, ...]
    roles: dict[str, Weight] = field(default_factory=dict)

    def out(self, role: str, hidden_size: int | None) -> int | None:
        """Output features of a projection from the residual stream; None where it is absent."""
        weight = self.roles.get(role)
        if weight is None:
            return None
        shape = weight.shape
        if len(shape) == 1 and hidden_size:  # packed flat
            return shape[0] // hidden_size if shape[0] % hidden_size == 0 else None
        if len(shape) < 2:
            return None
        transposed = hidden_size is not None and shape[-1] != hidden_size and shape[-2] == hidden_size
        return shape[-1] if transposed else shape[-2]

    def inputs(self, role: str, hidden_size: int | None) -> int | None:
        """Input features of a projection back to the residual stream; None where it is absent."""
        weight = self.roles.get(role)
        if weight is None:
            return None
        shape = weight.shape
        if len(shape) == 1 and hidden_size:
            return shape[0] // hidden_size if shape[0] % hidden_size == 0 else None
        if len(shape) < 2:
            return None
        transposed = hidden_size is not None and shape[-2] != hidden_size and shape[-1] == hidden_size
        return shape[-2] if transposed else shape[-1]

    def width(self, role: str) -> int | None:
        """Length of a vector, as that of a norm."""
        weight = self.roles.get(role)
        return weight.shape[0] if weight is not None and len(weight.shape) == 1 else None

    @property
    def recurrent(self) -> bool:
        """Whether the block keeps a recurrent state: a short convolution or a decay per channel."""
        return any(part_of(weight.name) == "recurrent" for weight in self.weights)


def block_evidence(rows: Sequence[Row], hint: PackingHint) -> BlockEvidence:
    """What the rows of one block prove."""
    weights = unpack(rows, hint)
    roles: dict[str, Weight] = {}
    for weight in weights:
        role = role_of(weight.name)
        if role is not None:
            roles.setdefault(role, weight)
    return BlockEvidence(tuple(weights), roles)


def layer_evidence(layers: dict[int, list[Row]], hint: PackingHint) -> dict[int, BlockEvidence]:
    """The evidence of every block; equal blocks share one object."""
    seen: dict[tuple[Row, ...], BlockEvidence] = {}
    found: dict[int, BlockEvidence] = {}
    for number, rows in layers.items():
        key = tuple(rows)
        if key not in seen:
            seen[key] = block_evidence(rows, hint)
        found[number] = seen[key]
    return found
