"""llama-server's arguments as parameters of the embedded engine."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from ropewalk.serving.engines.llama_cpp.embedded_flags import FLAGS, FlagError, parse


def settings(*arguments: str) -> dict[str, Any]:
    return dict(parse(arguments))


def test_what_is_not_said_is_as_in_llama_server() -> None:
    # tools/server/server.cpp:168 of llama.cpp b11434: -1 is chosen by the server, 4 slots that share.
    assert settings() == {"n_parallel": -1, "port": 8080}


@pytest.mark.parametrize(
    ("arguments", "attribute", "value"),
    [
        (("-c", "4096"), "n_ctx", 4096),
        (("--ctx_size", "4096"), "n_ctx", 4096),
        (("-np", "2"), "n_parallel", 2),
        (("-ctk", "q8_0"), "cache_type_k", 8),
        (("-ctv", "bf16"), "cache_type_v", 30),
        (("-fa", "off"), "flash_attn_type", 0),
        (("-fa", "auto"), "flash_attn_type", -1),
        (("-fit", "off"), "fit_params", 0),
        (("--no-kv-unified",), "kv_unified", False),
        (("--kv-unified",), "kv_unified", True),
        (("--rope-scaling", "yarn"), "rope_scaling_type", 2),
        (("--rope-scale", "4"), "rope_freq_scale", 0.25),
        (("--rope-freq-scale", "0.5"), "rope_freq_scale", 0.5),
        (("--yarn-orig-ctx", "8192"), "yarn_orig_ctx", 8192),
        (("-ngl", "all"), "n_gpu_layers", -2),
        (("-ngl", "0"), "n_gpu_layers", 0),
        (("--host", "0.0.0.0"), "hostnames", ["0.0.0.0"]),
        (("-a", "one,two"), "model_alias", {"one", "two"}),
        (("-ts", "3,1"), "tensor_split", [3.0, 1.0]),
        (("-lm", "mmap+mlock"), "load_mode", 3),
        (("-to", "60"), "timeout_write", 60),
        (("-t", "2"), "cpuparams_batch.n_threads", 2),
        (("-t", "2", "-tb", "4"), "cpuparams_batch.n_threads", 4),
    ],
)
def test_flags(arguments: tuple[str, ...], attribute: str, value: object) -> None:
    assert settings(*arguments)[attribute] == value


def test_the_last_of_a_repeated_flag_counts() -> None:
    assert settings("-c", "1", "--ctx-size", "2")["n_ctx"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--no-such-flag",), "error: invalid argument: --no-such-flag"),
        (("-c",), 'error while handling argument "-c": expected value for argument'),
        (("-c", "many"), 'error while handling argument "-c": stoi'),
        (("-c", "128k"), "stoi: '128k' is not a whole number"),
        (("-ctk", "q9_9"), 'error while handling argument "-ctk": Unsupported cache type: q9_9'),
        (("--rope-scaling", "longrope"), 'error while handling argument "--rope-scaling": invalid value'),
        (("--rope-scale", "0"), 'error while handling argument "--rope-scale": invalid value'),
        (("--override-kv", "a=int:1"), "error: invalid argument: --override-kv"),
    ],
)
def test_what_llama_server_would_refuse(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse(arguments)
    assert message in str(caught.value)


def test_no_spelling_is_used_twice() -> None:
    names = [name for flag in FLAGS for name in flag.names]
    assert len(names) == len(set(names))


@pytest.mark.engine
def test_the_engine_has_every_attribute_and_value_of_the_table() -> None:
    """In a process of its own, as the library may not be loaded into ours."""
    if find_spec("xllamacpp") is None:
        pytest.skip("the embedded engine is not installed")
    code = """
import xllamacpp
from ropewalk.serving.engines.llama_cpp.embedded_flags import FLAGS
parameters = xllamacpp.CommonParams()
for flag in FLAGS:
    for attribute in flag.attributes:
        owner, _, name = attribute.rpartition(".")
        getattr(getattr(parameters, owner) if owner else parameters, name)
types = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20, "bf16": 30}
for name, number in types.items():
    assert xllamacpp.ggml_type["GGML_TYPE_" + name.upper()] == number, name
assert xllamacpp.llama_rope_scaling_type.LLAMA_ROPE_SCALING_TYPE_YARN == 2
assert xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED == 1
assert xllamacpp.llama_load_mode.LLAMA_LOAD_MODE_MMAP_MLOCK == 3
assert xllamacpp.llama_split_mode.LLAMA_SPLIT_MODE_LAYER == 1
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_rules_for_tensors_become_one_text() -> None:
    """In the order given; the first that matches counts."""
    given = dict(parse(["-ot", "a=CPU,b=CUDA0", "--n-cpu-moe", "2", "--cpu-moe"]))
    experts = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU"
    assert given["tensor_buft_overrides"] == rf"a=CPU,b=CUDA0,blk\.0{experts},blk\.1{experts},{experts}"
