"""How configs say that weights are quantised, in one record."""

from __future__ import annotations

from typing import Any

import pytest
from tests.inspector.made import inspect

BASE = {"num_hidden_layers": 1, "hidden_size": 64}
GROUP = {"num_bits": 4, "type": "float", "group_size": 16}

SAID: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
    ({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True}, ("gptq", 4, 128, None)),
    ({"quant_method": "gptq", "bits": 3, "group_size": -1}, ("gptq", 3, None, None)),
    ({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}, ("awq", 4, 128, "gemm")),
    (
        {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
        ("bitsandbytes", 4, None, "nf4"),
    ),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, ("bitsandbytes", 8, None, None)),
    ({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}, ("fp8", 8, [128, 128], "e4m3")),
    ({"quant_method": "mxfp4"}, ("mxfp4", 4, None, None)),
    (
        {"quant_method": "compressed-tensors", "format": "pack-quantized",
         "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 32}}}},
        ("compressed-tensors", 4, 32, "pack-quantized"),
    ),
    (
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "config_groups": {"group_0": {"weights": GROUP}}},
        ("modelopt", 4, 16, "NVFP4"),
    ),
    (
        {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"},
        ("modelopt", None, None, "MIXED_PRECISION"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("said", "expected"), SAID)
@pytest.mark.parametrize("nested", [False, True])
def test_quantization_config(said: dict[str, Any], expected: tuple[Any, ...], nested: bool) -> None:
    config = (
        {"text_config": BASE | {"quantization_config": said}}
        if nested
        else BASE | {"quantization_config": said}
    )
    assert tuple(inspect(config).value("quantization").values()) == expected


def test_other_places() -> None:
    assert (
        inspect(BASE | {"quantization": {"bits": 4, "group_size": 64}}).value("quantization")["method"]
        == "mlx"
    )
    modelopt = {"hf_quant_config.json": {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}}
    assert inspect(BASE, relatives=modelopt).value("quantization")["bits"] == 8
    gptq = {"quantize_config.json": {"bits": 4, "group_size": 128, "desc_act": False}}
    assert inspect(BASE, relatives=gptq).value("quantization")["method"] == "gptq"


@pytest.mark.parametrize("said", [None, {}])
def test_plain_weights(said: Any) -> None:
    assert inspect(BASE | {"quantization_config": said}).value("quantization") is None


def test_gguf_files_by_the_type_of_most_bytes() -> None:
    metadata = {"general.architecture": "llama", "llama.block_count": 1}
    specs = {"token_embd.weight": ("Q6_K", [256, 256]), "blk.0.ffn_up.weight": ("Q4_K", [1024, 256])}
    value = inspect(specs=specs, gguf=metadata).value("quantization")
    assert (value["method"], value["format"], value["bits"]) == ("gguf", "Q4_K", 4.5)
    plain = inspect(specs={"blk.0.ffn_up.weight": ("F16", [8, 8])}, gguf=metadata)
    assert plain.value("quantization") is None
