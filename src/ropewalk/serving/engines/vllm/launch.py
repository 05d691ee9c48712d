"""A plan as a ``vllm serve`` command line, and what that server needs to be started and asked.

Checked against vLLM 0.32.0 and 0.33.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import PurePath

from ropewalk.engines import EngineBuild
from ropewalk.findings import Finding
from ropewalk.inspector.readers.hubsource import hub_id_of
from ropewalk.planner.engines.vllm_settings import batched_tokens, running_sequences, utilization
from ropewalk.planner.engines.vllm_speculation import speculation_of
from ropewalk.planner.machine import Machine
from ropewalk.planner.parallel import world_size
from ropewalk.planner.records import Launch, Plan, PlanRequest
from ropewalk.serving.client import Reading
from ropewalk.serving.engines.vllm import devices as vllm_devices
from ropewalk.serving.engines.vllm import log as vllm_log
from ropewalk.serving.engines.vllm import nodes as vllm_nodes
from ropewalk.serving.engines.vllm.client import VllmClient
from ropewalk.serving.engines.vllm.options import REASONS
from ropewalk.serving.records import Topology
from ropewalk.units import GIB

OPTION_REASONS = REASONS
DEFAULT_PORT = 8000
_PREFIX_CACHING: dict[bool | None, tuple[str, ...]] = {
    None: (), True: ("--enable-prefix-caching",), False: ("--no-enable-prefix-caching",)
}  # fmt: skip
READY_SECONDS = 1800.0  # imports, download, weights, compilation: 106 s for 135M parameters on two cores
READING: Reading | None = "whole"  # prompt_logprobs
# Each overrules a flag or a check without a word (platforms/cpu.py:323, config/model.py, 0.32.0).
SCRUBBED_ENVIRONMENT = re.compile(r"VLLM_CPU_KVCACHE_SPACE$|VLLM_ALLOW_LONG_MAX_MODEL_LEN$")


check_devices = vllm_devices.check_devices


def arguments(
    plan: Plan, *, build: EngineBuild, model: str, host: str, port: int, threads: int | None
) -> tuple[str, ...]:
    """The arguments that make vLLM allocate and serve what ``plan`` says.

    On a CPU the size of the KV cache is always written out: the default, 92 % of all memory, fails on
    every machine that runs anything else.
    """
    request = plan.request
    on_cpu = request.device == "cpu" or (build.devices == ("cpu",) and request.gpu is None)
    hub = hub_id_of(model)
    name = hub.repo if hub else model
    return (
        *("serve", name, "--host", host, "--port", str(port)),
        *("--served-model-name", PurePath(name).name),
        *(("--revision", hub.revision) if hub and hub.revision != "main" else ()),
        *("--max-model-len", str(plan.context_len)),
        *("--max-num-seqs", str(running_sequences(request, request.num_sequences))),
        *_memory(plan, on_cpu=on_cpu),
        *_numbers(plan.request),
        *_parallel(plan),
        *_drafting(plan.request),
        *_overrides(plan),
        "--enable-prompt-tokens-details",
    )


def served_context_len(plan: Plan) -> int:
    """The length as planned."""
    return plan.context_len


def _drafting(request: PlanRequest) -> tuple[str, ...]:
    """What proposes tokens, and how many a step."""
    spec = speculation_of(request)
    if spec is None:
        return ()
    stated = {} if spec.method == "draft_model" else {"method": spec.method}
    model = {"model": spec.draft} if spec.draft else {}
    return (
        "--speculative-config",
        json.dumps({**stated, **model, "num_speculative_tokens": spec.tokens}, separators=(",", ":")),
    )


def distribute(launch: Launch, spread: Topology, *, num_nodes: int) -> Launch:
    """One server's launch as that of several machines."""
    return vllm_nodes.distribute(launch, spread, num_nodes=num_nodes)


def launch_findings(plan: Plan) -> tuple[Finding, ...]:
    """Nothing beyond what the plan says."""
    return ()


def program(build: EngineBuild) -> tuple[str, ...]:
    """What goes before the arguments: the ``vllm`` command, or its module for an interpreter."""
    if PurePath(build.path).name.startswith("python"):
        return (build.path, "-P", "-m", "vllm.entrypoints.cli.main")
    return (build.path,)


def start_argv(launch: Launch) -> AbstractContextManager[tuple[str, ...]]:
    """The arguments as they are."""
    return nullcontext(launch.argv)


def command_of(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """The command line for a person's shell."""
    return vllm_nodes.typed("vllm", argv, env)


def served_name(argv: Sequence[str]) -> str:
    """The name under which a server with these arguments lists its model."""
    return argv[argv.index("--served-model-name") + 1]


def client(base_url: str, *, model: str) -> VllmClient:
    """A client of the server at this address; vLLM itself tells all about its model."""
    return VllmClient(base_url)


def root_error(lines: Sequence[str]) -> str | None:
    """The engine's own reason for ending, from its log."""
    return vllm_log.root_error(lines)


def _memory(plan: Plan, *, on_cpu: bool) -> tuple[str, ...]:
    """The cache's type and size, and the step that the activations are sized by."""
    request = plan.request
    dtype = () if request.cache_type_k == "auto" else ("--kv-cache-dtype", request.cache_type_k)
    block = () if request.block_size is None else ("--block-size", str(request.block_size))
    given = request.kv_cache_memory_bytes
    if on_cpu:
        tokens = batched_tokens(request, Machine(kind="cpu"))
        size = ("--kv-cache-memory-bytes", str(_rank_cache_bytes(plan) if given is None else given))
        return (*dtype, *block, *size, "--max-num-batched-tokens", str(tokens))
    step = request.max_batched_tokens
    return (
        *dtype,
        *block,
        *(
            ("--gpu-memory-utilization", str(utilization(request)))
            if given is None
            else ("--kv-cache-memory-bytes", str(given))
        ),
        *(() if step is None else ("--max-num-batched-tokens", str(step))),
    )


def _numbers(request: PlanRequest) -> tuple[str, ...]:
    """What it computes in, and what is switched off."""
    return (
        *(() if request.dtype == "auto" else ("--dtype", request.dtype)),
        *(() if request.quantization is None else ("--quantization", request.quantization)),
        *(("--enforce-eager",) if request.enforce_eager else ()),
        *(("--language-model-only",) if request.language_model_only else ()),
        *_PREFIX_CACHING[request.prefix_caching],
        *_states(request),
        *_offloaded(request),
        *_adapters(request),
    )


def _states(request: PlanRequest) -> tuple[str, ...]:
    """How states of recurrent layers are kept."""
    mode, dtype = request.mamba_cache_mode, request.mamba_ssm_cache_dtype
    return (
        *(() if mode is None else ("--mamba-cache-mode", mode)),
        *(() if dtype == "auto" else ("--mamba-ssm-cache-dtype", dtype)),
    )


def _offloaded(request: PlanRequest) -> tuple[str, ...]:
    """What lies in host memory, in GiB as vLLM takes it."""
    weights, blocks = request.cpu_offload_bytes, request.kv_offloading_bytes
    return (
        *(("--cpu-offload-gb", f"{weights / GIB:g}") if weights else ()),
        *(("--kv-offloading-size", f"{blocks / GIB:g}") if blocks else ()),
    )


def _adapters(request: PlanRequest) -> tuple[str, ...]:
    if not request.lora:
        return ()
    return ("--enable-lora", "--max-loras", str(request.lora), "--max-lora-rank", str(request.max_lora_rank))


def _rank_cache_bytes(plan: Plan) -> int:
    """The cache of the rank that holds most: the flag is each rank's, and all take the fewest blocks."""
    return max(share.kv_bytes for share in plan.memory.per_device)


def _parallel(plan: Plan) -> tuple[str, ...]:
    """How the model is cut; what is left alone is left out."""
    request = plan.request
    sizes = (
        ("--tensor-parallel-size", request.tensor_parallel),
        ("--pipeline-parallel-size", request.pipeline_parallel),
        ("--data-parallel-size", request.data_parallel),
        ("--decode-context-parallel-size", request.decode_context_parallel),
    )
    return (
        *(word for flag, count in sizes if count > 1 for word in (flag, str(count))),
        *(("--enable-expert-parallel",) if request.expert_parallel else ()),
    )


def environment(plan: Plan, *, threads: int | None) -> dict[str, str]:
    """What has no flag: the blocks of each stage, and the threads of a rank."""
    partition = plan.request.layer_partition
    cut = {"VLLM_PP_LAYER_PARTITION": ",".join(map(str, partition))} if partition else {}
    return cut | ({} if threads is None else _threads(plan, threads))


def _threads(plan: Plan, threads: int) -> dict[str, str]:
    """One rank is bound to the first cores. Several are left to the system: bound ones need a NUMA node each
    (utils/ompmultiprocessing.py:118-230, 0.32.0)."""
    request = plan.request
    if world_size(request) == 1:
        return {"VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}"}
    return {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": str(threads)}


def _overrides(plan: Plan) -> tuple[str, ...]:
    """The rope block of the plan as one JSON word."""
    overrides = plan.rope.vllm_hf_overrides
    return ("--hf-overrides", json.dumps(overrides, separators=(",", ":"))) if overrides else ()
