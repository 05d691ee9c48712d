"""The dtypes of the safetensors format and how wide each is."""

from __future__ import annotations

# safetensors 0.8.0, safetensors/src/tensor.rs (`Dtype::bitsize`). The names are part of the format.
BITS: dict[str, int] = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
_USIZE_MAX = 2**64 - 1


def tensor_bytes(dtype: str, shape: tuple[int, ...]) -> int | None:
    """The stored bytes of a tensor; None for an unknown dtype, a fraction of a byte or an overflow.

    The product may not pass 64 bits at any step, not even on its way to zero: the reference multiplies the
    dimensions in order and refuses there (``checked_mul``).
    """
    bits = BITS.get(dtype)
    if bits is None:
        return None
    elements = 1
    for length in shape:
        elements *= length
        if elements > _USIZE_MAX:
            return None
    bits *= elements
    return bits // 8 if bits % 8 == 0 and bits <= _USIZE_MAX else None
