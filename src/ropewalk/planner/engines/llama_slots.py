"""What llama.cpp makes of ``-c``, ``-np``, ``-b`` and ``-ub``: padded contexts, streams and cells.

Source of every rule: llama.cpp b11434, src/llama-context.cpp:248-308, src/llama-kv-cache.cpp:79,
src/llama-kv-cache-iswa.cpp:73; checked against 154 runs of a real server.
"""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.inspector.layer_kinds import LayerGroup

CELL_PAD = 256
DEFAULT_BATCH = 2048  # llama.cpp b11434, common/common.h
DEFAULT_UBATCH = 512


def pad(count: int, unit: int = CELL_PAD) -> int:
    """The next multiple of ``unit``."""
    return -(-count // unit) * unit


@dataclass(frozen=True, slots=True)
class Slots:
    """Resolved sizes. ``cells`` is one stream's length in tokens, ``n_ctx`` all streams together."""

    num_slots: int
    unified: bool
    n_ctx: int
    cells: int
    n_batch: int
    n_ubatch: int
    swa_full: bool

    @property
    def streams(self) -> int:
        """Separate caches: one per slot unless they share."""
        return 1 if self.unified else self.num_slots

    def layer_cells(self, group: LayerGroup) -> int:
        """Cells of one stream in a layer of this group; windows keep the window and one ubatch."""
        if not group.window or self.swa_full:
            return self.cells
        windows = group.window * (self.num_slots if self.unified else 1)
        pooled = self.cells // group.compress_ratio if group.compress_ratio else 0
        return pad(min(self.cells, windows + self.n_ubatch)) + pooled


def resolve_slots(
    n_ctx: int,
    *,
    num_slots: int,
    unified: bool,
    batch: int | None = None,
    ubatch: int | None = None,
    swa_full: bool = False,
) -> Slots:
    """The sizes that a server started with ``-c n_ctx -np num_slots`` allocates.

    Without ``unified`` each slot has ``pad(n_ctx / num_slots)`` cells: the division rounds up. The batch
    sizes are capped by ``n_ctx`` as given, before padding.
    """
    n_batch = min(n_ctx, batch or DEFAULT_BATCH)
    n_ubatch = min(n_batch, ubatch or DEFAULT_UBATCH)
    padded = pad(n_ctx)
    cells = padded if unified else pad(padded // num_slots)
    return Slots(
        num_slots=num_slots,
        unified=unified,
        n_ctx=cells if unified else cells * num_slots,
        cells=cells,
        n_batch=n_batch,
        n_ubatch=n_ubatch,
        swa_full=swa_full,
    )
