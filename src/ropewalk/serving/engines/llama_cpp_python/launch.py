"""A plan as a ``python -m llama_cpp.server`` command line, and what that server needs to be started.

Checked against llama-cpp-python 0.3.36. Its defaults are those of a notebook: 2,048 tokens, no flash
attention, logits kept for every token. All that changes the context or the memory is written out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import takewhile

from ropewalk.engines import EngineBuild
from ropewalk.findings import Finding
from ropewalk.inspector.readers.ggml_types import GGML_TYPES
from ropewalk.planner.engines.llama_cpp_python import slots_of
from ropewalk.planner.records import Launch, Plan
from ropewalk.serving.client import Reading
from ropewalk.serving.engines.llama_cpp import launch as llama_server
from ropewalk.serving.engines.llama_cpp import log as llama_log
from ropewalk.serving.engines.llama_cpp import rpc as llama_rpc
from ropewalk.serving.engines.llama_cpp_python.client import LlamaCppPythonClient
from ropewalk.serving.engines.llama_cpp_python.options import REASONS
from ropewalk.serving.records import Topology

OPTION_REASONS = REASONS
DEFAULT_PORT = 8000
READY_SECONDS = 900.0  # 6 s for 135M parameters, most of it imports; large ones take as long as their disk
READING: Reading | None = None  # probabilities need --logits_all, which keeps context x vocabulary x 4 bytes
# Every setting is read from a variable of its name where it is not given, in either case, and HOST and PORT
# even before what is given (server/settings.py, server/__main__.py).
SCRUBBED_ENVIRONMENT = re.compile(
    r"(?i:api_key|cache|cache_size|cache_type|chat_format|chat_template_kwargs|clip_model_path|config_file|"
    r"disable_ping_events|draft_model|draft_model_num_pred_tokens|embedding|flash_attn|hf_model_repo_id|"
    r"hf_pretrained_model_name_or_path|hf_tokenizer_config_path|host|interrupt_requests|kv_overrides|"
    r"last_n_tokens_size|logits_all|lora_base|lora_path|main_gpu|model|model_alias|mul_mat_q|n_batch|n_ctx|"
    r"n_gpu_layers|n_threads|n_threads_batch|n_ubatch|numa|offload_kqv|port|root_path|rope_freq_base|"
    r"rope_freq_scale|rope_scaling_type|rpc_servers|seed|split_mode|ssl_certfile|ssl_keyfile|tensor_split|"
    r"type_k|type_v|use_mlock|use_mmap|verbose|vocab_only|yarn_attn_factor|yarn_beta_fast|yarn_beta_slow|"
    r"yarn_ext_factor|yarn_orig_ctx)$"
)

_NUMBERS = {kind.name.lower(): number for number, kind in GGML_TYPES.items()}
_YARN = 2  # include/llama.h, LLAMA_ROPE_SCALING_TYPE_YARN
_OF_PROGRAM = re.compile(
    r"(?:\w+|__main__\.py): |\d+ validation error"
)  # no line of a template or of metadata
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"\w*(?:Error|Exception): ")


check_devices = llama_server.check_devices


def arguments(
    plan: Plan, *, build: EngineBuild, model: str, host: str, port: int, threads: int | None
) -> tuple[str, ...]:
    """The arguments that make the server allocate and serve what ``plan`` says.

    ``--n_ctx`` is a multiple of 256: of any other llama.cpp makes one, while the library's own arrays stay as
    short as asked. The library's own YaRN ramp and magnitude would replace those of the file; -1 leaves them.
    """
    request = plan.request
    slots = slots_of(request, plan.context_len)
    return (
        *("--model", model, "--model_alias", llama_server.model_name(model)),
        *("--n_ctx", str(slots.n_ctx), "--n_batch", str(slots.n_batch), "--n_ubatch", str(slots.n_ubatch)),
        *("--logits_all", "false", "--cache", "false", "--use_mlock", "false"),
        *("--flash_attn", "false" if request.flash_attn == "off" else "true"),
        *("--type_k", _type_number(request.cache_type_k), "--type_v", _type_number(request.cache_type_v)),
        *_rope(plan),
        *_layers(plan),
        *(("--n_threads", str(threads), "--n_threads_batch", str(threads)) if threads else ()),
        *("--host", host, "--port", str(port)),
    )


environment = llama_server.environment


def served_context_len(plan: Plan) -> int:
    """The cells that llama.cpp makes of the planned length."""
    return slots_of(plan.request, plan.context_len).cells


def distribute(launch: Launch, spread: Topology, *, num_nodes: int) -> Launch:
    """As with llama-server: other machines are arguments. Raises :class:`UsageError`."""
    return llama_server.distribute(launch, spread, num_nodes=num_nodes)


def launch_findings(plan: Plan) -> tuple[Finding, ...]:
    """What RPC servers mean for the safety of the machine and the model."""
    return llama_rpc.findings(plan.request.rpc_servers)


def program(build: EngineBuild) -> tuple[str, ...]:
    """What goes before the arguments: the module, by the interpreter that has it."""
    return (build.path, "-I", "-m", "llama_cpp.server")


def start_argv(launch: Launch) -> AbstractContextManager[tuple[str, ...]]:
    """The arguments as they are."""
    return nullcontext(launch.argv)


def command_of(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """The command line for a person's shell."""
    return shlex.join(("python", "-m", "llama_cpp.server", *argv))


def served_name(argv: Sequence[str]) -> str:
    """The name under which a server with these arguments lists its model."""
    return argv[argv.index("--model_alias") + 1]


def client(base_url: str, *, model: str) -> LlamaCppPythonClient:
    """A client of the server at this address."""
    return LlamaCppPythonClient(base_url)


def root_error(lines: Sequence[str]) -> str | None:
    """llama.cpp's own reason for ending, else the exception that the library ended with."""
    own = [line for line in lines if _OF_PROGRAM.match(line)]
    return llama_log.root_error(own) or _exception(lines)


def _exception(lines: Sequence[str]) -> str | None:
    """llama.cpp says last what it refuses; the library only that it failed to make a context."""
    before = list(takewhile(lambda line: line != _TRACEBACK, lines))
    if len(before) == len(lines):
        return None
    if before and _OF_PROGRAM.match(before[-1]):
        return before[-1].strip()
    return next((line.strip() for line in lines[len(before) :] if _EXCEPTION.match(line)), None)


def _type_number(name: str) -> str:
    return str(_NUMBERS["f16" if name == "auto" else name])


def _rope(plan: Plan) -> tuple[str, ...]:
    """The added YaRN in llama.cpp's own numbers, and nothing of the library's in place of the file's."""
    rope = plan.rope
    as_stored = ("--yarn_attn_factor", "-1", "--yarn_beta_fast", "-1", "--yarn_beta_slow", "-1")
    if rope.decision != "scale" or rope.factor is None:
        return as_stored
    return (
        *("--rope_scaling_type", str(_YARN), "--rope_freq_scale", repr(1 / rope.factor)),
        *("--yarn_orig_ctx", str(rope.original_max_position_embeddings)),
        *as_stored,
    )


def _layers(plan: Plan) -> tuple[str, ...]:
    """How many layers go to GPUs and RPC servers, in which shares; -1 is all."""
    request = plan.request
    offloads = request.rpc_servers or any(share.device.startswith("gpu") for share in plan.memory.per_device)
    asked = -1 if request.gpu_layers is None else request.gpu_layers
    shares = [f"{share:g}" for share in request.tensor_split]
    return (
        *(("--rpc_servers", ",".join(request.rpc_servers)) if request.rpc_servers else ()),
        *("--n_gpu_layers", str(asked if offloads else 0)),
        *(("--tensor_split", *shares) if shares else ()),
    )
