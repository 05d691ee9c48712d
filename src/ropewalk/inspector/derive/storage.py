"""How the weights are stored, held against what the config says about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ropewalk.findings import Finding
from ropewalk.inspector.derive.names import Row
from ropewalk.inspector.derive.packing import PACKED_LEAVES
from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.records import Fact

_INTEGERS = frozenset({"I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64"})
_PLAIN = {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "float64": "F64"}


def reconcile_storage(
    settings: Settings, quantization: Fact, dtype: Fact, blocks: Iterable[list[Row]]
) -> list[Finding]:
    """Quantised weights without a word about it, a word about it without such weights, another dtype."""
    rows = [row for block in blocks for row in block]
    if settings.format == "gguf" or not rows:
        return []
    packed = next((row for row in rows if _is_quantised(row)), None)
    if packed is not None and quantization.value is None:
        message = f"{packed.name} is quantised ({packed.dtype}), but the config has no quantization_config"
        return [_finding(None, packed, message)]
    if packed is None and isinstance(quantization.value, Mapping):
        return _unquantised(quantization, rows)
    return _other_dtype(settings, quantization, dtype)


def _is_quantised(row: Row) -> bool:
    if row.name.rpartition(".")[2] in PACKED_LEAVES or row.name.endswith("_blocks") or ".absmax" in row.name:
        return True
    return row.dtype.startswith(("F8_", "F4", "U32")) and row.name.endswith(".weight")


def _unquantised(quantization: Fact, rows: list[Row]) -> list[Finding]:
    """Methods that quantise while loading store plain weights; others cannot load them."""
    method = quantization.value["method"]
    stored = {row.dtype for row in rows}
    if method in ("bitsandbytes", "fp8", "torchao", "quanto", None) or stored & _INTEGERS:
        return []
    message = (
        f"the config says that the weights are quantised by {method}, but all are {', '.join(sorted(stored))}"
    )
    return [_finding(method, rows[0], message)]


def _other_dtype(settings: Settings, quantization: Fact, dtype: Fact) -> list[Finding]:
    declared = settings.fact("dtype")
    if (
        declared is None
        or declared.value is None
        or dtype.source != "tensor"
        or quantization.value is not None
    ):
        return []
    if declared.value == dtype.value or declared.value not in _PLAIN:
        return []
    message = (
        f"{declared.detail} is {declared.value}, the tensors are {dtype.value}: engines convert while loading"
    )
    where = {"field": declared.detail, "config": declared.value, "tensors": dtype.value}
    return [Finding("config_tensor_mismatch", "warning", message, where)]


def _finding(declared: str | None, row: Row, message: str) -> Finding:
    where = {"field": "quantization_config", "config": declared, "tensors": row.dtype, "tensor": row.name}
    return Finding("config_tensor_mismatch", "error", message, where)
