"""RWKV: the last token of each half of the block and one square matrix per head.

llama.cpp b11434, llama-hparams.cpp n_embd_r and n_embd_s: ``token_shift_count`` x hidden and hidden x head
size. RWKV 4 has no heads: it keeps numerator, denominator and maximum per channel.
"""

from ropewalk.inspector.derive.families.base import Family, register
from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.records import StateTensor


def _state(settings: Settings) -> tuple[StateTensor, ...] | None:
    hidden = settings.integer("hidden_size")
    size = settings.integer("head_dim") or settings.raw("wkv.head_size")
    if not hidden:
        return None
    if not isinstance(size, int) or not size or hidden % size:
        if settings.model_type != "rwkv":
            return None
        return (StateTensor("shift", (2, hidden)), StateTensor("wkv", (3, hidden)))
    shifts = settings.raw("token_shift_count")
    rows = shifts if isinstance(shifts, int) and 0 < shifts <= 2 else 2
    return (StateTensor("shift", (rows, hidden)), StateTensor("wkv", (hidden // size, size, size)))


FAMILY = register(
    Family(
        ("rwkv", "rwkv5", "rwkv6", "rwkv7", "rwkv6qwen2", "arwkv7"),
        positions=lambda settings: "none",
        state=_state,
        all_recurrent=True,
    )
)
