"""llama-cpp-python's server: the command of a plan, and the lines that it ends with (0.3.36)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ropewalk.engines import EngineBuild
from ropewalk.planner.records import Launch, Plan, PlanRequest, RopeDecision
from ropewalk.serving.engines import launch_of
from ropewalk.serving.engines.known_flags import flags_in, unknown_flags
from ropewalk.serving.engines.llama_cpp_python import launch as llama_cpp_python

BUILD = EngineBuild("llama-cpp-python", "llama-cpp-python", "0.3.36", "/venv/bin/python")
AS_STORED = ["--yarn_attn_factor", "-1", "--yarn_beta_fast", "-1", "--yarn_beta_slow", "-1"]
# python -m llama_cpp.server --help
HELP = """\
usage: __main__.py [-h] [--model MODEL] [--nothing_of_it NOTHING]
  --model MODEL         The path to the model to use for generating
                        completions.
  --n_ctx N_CTX         The context size. (default: 2048)
  --rope_scaling_type ROPE_SCALING_TYPE
  --tensor_split [TENSOR_SPLIT ...]
                        Split layers across multiple GPUs in proportion.
""".splitlines()
CUT = """\
gguf_init_from_reader: failed to read key-value pairs
llama_model_load: error loading model: llama_model_loader: failed to load model from cut.gguf
Traceback (most recent call last):
ValueError: Failed to load model from file: cut.gguf
""".splitlines()
UNQUANTISABLE = """\
load_tensors:   CPU_Mapped model buffer size =    92.10 MiB
llama_init_from_model: quantized V cache requires flash_attn to be enabled
Traceback (most recent call last):
  File "llama_cpp/_internals.py", line 266, in __init__
    raise ValueError("Failed to create llama_context")
ValueError: Failed to create llama_context
""".splitlines()
TAKEN = """\
Using gguf chat template: {% if error %}an error: {% endif %}
INFO:     Application startup complete.
ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use
""".splitlines()


@pytest.fixture
def spec(make_plan: Callable[..., Plan]) -> Callable[..., Launch]:
    def make(
        context_len: int = 3001, rope: RopeDecision | None = None, threads: int = 1, **options: object
    ) -> Launch:
        request = PlanRequest(context_len, "llama-cpp-python", **options)  # type: ignore[arg-type]
        plan = make_plan(request, checkpoint="/models/smol,lm.gguf")
        plan = plan if rope is None else replace(plan, rope=rope)
        return launch_of(plan, build=BUILD, threads=threads)

    return make


def value(spec: Launch, flag: str) -> str:
    return spec.argv[spec.argv.index(flag) + 1]


def test_everything_that_its_defaults_would_change_is_written_out(spec: Callable[..., Launch]) -> None:
    found = spec()
    assert " ".join(found.argv) == (
        "--model /models/smol,lm.gguf --model_alias smol_lm --n_ctx 3072 --n_batch 512 --n_ubatch 512 "
        "--logits_all false --cache false --use_mlock false --flash_attn true --type_k 1 --type_v 1 "
        f"{' '.join(AS_STORED)} --n_gpu_layers 0 --n_threads 1 --n_threads_batch 1 "
        "--host 127.0.0.1 --port 8000"
    )
    assert (found.context_len, found.served_context_len) == (3001, 3072)
    assert found.override_context_len is None
    assert llama_cpp_python.served_name(found.argv) == "smol_lm"
    assert found.command.startswith("python -m llama_cpp.server --model ")
    assert llama_cpp_python.program(BUILD) == ("/venv/bin/python", "-I", "-m", "llama_cpp.server")


def test_batches_types_and_layers(spec: Callable[..., Launch]) -> None:
    found = spec(
        100, cache_type_k="iq4_nl", cache_type_v="bf16", flash_attn="off", rpc_servers=("10.0.0.2:50052",),
        tensor_split=(3.0, 1.5), gpu_layers=7,
    )  # fmt: skip
    assert [value(found, flag) for flag in ("--n_ctx", "--n_batch", "--n_ubatch")] == ["256", "100", "100"]
    assert (value(found, "--type_k"), value(found, "--type_v")) == ("20", "30")
    assert value(found, "--flash_attn") == "false"
    assert (value(found, "--rpc_servers"), value(found, "--n_gpu_layers")) == ("10.0.0.2:50052", "7")
    at = found.argv.index("--tensor_split")
    assert found.argv[at + 1 : at + 4] == ("3", "1.5", "--n_threads")


def test_yarn_in_llama_cpps_own_numbers(spec: Callable[..., Launch]) -> None:
    yarn = RopeDecision("scale", "yarn", 4.0, 8192, None, "", "")
    found = spec(32_768, yarn)
    at = found.argv.index("--rope_scaling_type")
    assert list(found.argv[at : at + 12]) == [
        *("--rope_scaling_type", "2", "--rope_freq_scale", "0.25", "--yarn_orig_ctx", "8192"),
        *AS_STORED,
    ]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (CUT, "gguf_init_from_reader: failed to read key-value pairs"),
        (UNQUANTISABLE, "llama_init_from_model: quantized V cache requires flash_attn to be enabled"),
        (TAKEN, TAKEN[-1]),
        (
            ["__main__.py: error: unrecognized arguments: --nosuch 3"],
            "__main__.py: error: unrecognized arguments: --nosuch 3",
        ),
        (
            ["Traceback (most recent call last):", "ValueError: Model path does not exist: none.gguf"],
            "ValueError: Model path does not exist: none.gguf",
        ),
        (TAKEN[:2], None),
    ],
    ids=["cut", "unquantisable", "port", "argument", "missing", "none"],
)
def test_the_reason_of_an_end(lines: list[str], reason: str | None) -> None:
    assert llama_cpp_python.root_error(lines) == reason


def test_flags_are_read_from_its_help() -> None:
    known = flags_in(HELP)
    assert known == {"--model", "--n_ctx", "--rope_scaling_type", "--tensor_split"}
    assert unknown_flags(("--n_ctx", "-1", "--n_batch", "4"), known) == ("--n_batch",)


@pytest.mark.parametrize(
    ("name", "is_scrubbed"),
    [("HOST", True), ("port", True), ("N_CTX", True), ("HOSTNAME", False), ("MODELS_DIR", False)],
)
def test_variables_that_would_change_the_server(name: str, is_scrubbed: bool) -> None:
    assert bool(llama_cpp_python.SCRUBBED_ENVIRONMENT.match(name)) is is_scrubbed
