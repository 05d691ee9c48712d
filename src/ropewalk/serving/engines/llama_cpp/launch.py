"""A plan as a ``llama-server`` command line, and what that server needs to be started and asked.

Checked against llama.cpp b11434. Everything that changes the context or the memory is written out:
defaults differ between builds, and between the server and the library.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath

from ropewalk.engines import EngineBuild
from ropewalk.errors import UsageError
from ropewalk.findings import Finding
from ropewalk.inspector.readers.hubsource import hub_id_of
from ropewalk.inspector.records import Inspection
from ropewalk.planner.caches import CacheType, find_cache_type
from ropewalk.planner.engines.llama_memory import CACHE_TYPES
from ropewalk.planner.engines.llama_slots import Slots, resolve_slots
from ropewalk.planner.records import Launch, Plan
from ropewalk.serving.client import Reading
from ropewalk.serving.engines.adapter import Outcome
from ropewalk.serving.engines.find import with_devices
from ropewalk.serving.engines.llama_cpp import log as llama_log
from ropewalk.serving.engines.llama_cpp import rpc as llama_rpc
from ropewalk.serving.engines.llama_cpp.client import LlamaClient
from ropewalk.serving.engines.llama_cpp.options import REASONS
from ropewalk.serving.records import SINGLE_NODE, Topology
from ropewalk.units import MIB

OPTION_REASONS = REASONS
DEFAULT_PORT = 8080
READY_SECONDS = 900.0  # 0.5 s for 135M parameters; hundreds of gigabytes take as long as their disk
# No route gives the probabilities of a prompt: each token is read as the next one of its prefix.
READING: Reading | None = "stops"
# Read by llama-server for every flag that is not given: a forgotten one would serve another plan.
SCRUBBED_ENVIRONMENT = re.compile(r"LLAMA_ARG_")

_LOG_LEVEL = 4  # sizes of the buffers are printed from here on
_OVERRIDE = "--override-kv"
_ALL_LAYERS = 999  # more than any model has: every build takes a number, only newer ones "all"


def arguments(
    plan: Plan, *, build: EngineBuild, model: str, host: str, port: int, threads: int | None
) -> tuple[str, ...]:
    """The arguments that make llama-server allocate and serve what ``plan`` says.

    ``-c`` is the whole cache, which the engine divides by the slots. Flash attention is written as ``on``
    where the value cache is quantised and the plan leaves it open: the engine refuses that without.
    """
    slots = _slots(plan)
    override = plan.override_context_len
    return (
        *("-m", model, "-a", model_name(model), "-c", str(slots.n_ctx), "-np", str(slots.num_slots)),
        *_sharing(plan),
        *("-b", str(slots.n_batch), "-ub", str(slots.n_ubatch)),
        *_cache(plan),
        *("-fit", "off"),
        *plan.rope.llama_server_flags,
        *(_override_flags(model, override) if override else ()),
        *_layers(plan),
        *_companions(plan),
        *(("-t", str(threads)) if threads else ()),
        *("--host", host, "--port", str(port), "--metrics", "-lv", str(_LOG_LEVEL)),
    )


def environment(plan: Plan, *, threads: int | None) -> dict[str, str]:
    """Nothing: llama.cpp is told all by arguments."""
    return {}


def served_context_len(plan: Plan) -> int:
    """The cells of a slot; of a common cache each may take the planned length."""
    slots = _slots(plan)
    return plan.context_len if slots.unified else slots.cells


def _slots(plan: Plan) -> Slots:
    request = plan.request
    return resolve_slots(
        plan.context_len * request.num_sequences,
        num_slots=request.num_sequences,
        unified=request.kv_unified,
        batch=request.batch,
        ubatch=request.ubatch,
    )


def _companions(plan: Plan) -> tuple[str, ...]:
    """What drafts, and a tower. Without its type a draft model is loaded and left unused (b11434)."""
    request = plan.request
    return (
        *(("-md", request.draft, "--spec-type", "draft-simple") if request.draft else ()),
        *(("--spec-type", "draft-mtp") if request.mtp else ()),
        *(("--mmproj", request.projector) if request.projector else ()),
    )


def distribute(launch: Launch, spread: Topology, *, num_nodes: int) -> Launch:
    """The launch as it is: other machines are RPC servers, which are arguments. Raises :class:`UsageError`
    for nodes that would run llama-server themselves."""
    if num_nodes > 1 or spread != SINGLE_NODE:
        raise UsageError(
            "llama-server is one process; it uses other machines that run ggml-rpc-server: "
            "--rpc HOST:PORT,...",
            where={"nodes": num_nodes, "addresses": list(spread.addresses), "executor": spread.executor},
        )
    return launch


def launch_findings(plan: Plan) -> tuple[Finding, ...]:
    """What RPC servers mean for the safety of the machine and the model."""
    return llama_rpc.findings(plan.request.rpc_servers)


def model_name(model: str) -> str:
    """A name for requests that does not depend on where the file lies; a comma would make it two."""
    return PurePath(model).name.removesuffix(".gguf").replace(",", "_")


def program(build: EngineBuild) -> tuple[str, ...]:
    """What goes before the arguments to start this build."""
    if build.name == "embedded":
        return (build.path, "-P", "-m", "ropewalk.serving.engines.llama_cpp.embedded")
    return (build.path,)


@contextmanager
def start_argv(launch: Launch) -> Iterator[tuple[str, ...]]:
    """The arguments to start with. The embedded engine takes no metadata override, so it gets a patched
    copy of the file; once it has the copy mapped, the name is removed again."""
    if launch.found_build.name != "embedded" or launch.override_context_len is None:
        yield launch.argv
        return
    from ropewalk.serving.engines.llama_cpp.gguf_override import patched_copy

    with patched_copy(Path(launch.model), context_len=launch.override_context_len) as copy:
        yield with_model(launch.argv, str(copy))


def command_of(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """The command line for a person's shell, in llama-server's own spelling whatever the build."""
    return shlex.join(("llama-server", *_fetched(argv)))


def _fetched(argv: Sequence[str]) -> tuple[str, ...]:
    """The arguments with a model of the Hub as llama-server fetches it itself; the embedded engine cannot."""
    at = argv.index("-m")
    hub = hub_id_of(argv[at + 1])
    if hub is None or hub.repo.endswith(".gguf"):
        return tuple(argv)
    file = ("--hf-file", hub.file) if hub.file else ()
    return (*argv[:at], "--hf-repo", hub.repo, *file, *argv[at + 2 :])


def served_name(argv: Sequence[str]) -> str:
    """The name under which a server with these arguments lists its model."""
    return argv[argv.index("-a") + 1]


def with_model(argv: Sequence[str], model: str) -> tuple[str, ...]:
    """The arguments with another model file and no metadata override: for a copy that has it inside."""
    arguments = list(without_override(argv))
    arguments[arguments.index("-m") + 1] = model
    return tuple(arguments)


def without_override(argv: Sequence[str]) -> tuple[str, ...]:
    """The arguments without a metadata override: it lifts the context's limit and takes no memory."""
    if _OVERRIDE not in argv:
        return tuple(argv)
    at = argv.index(_OVERRIDE)
    return (*argv[:at], *argv[at + 2 :])


def check_devices(plan: Plan, launch: Launch, inspection: Inspection, spread: Topology) -> Outcome:
    """Whether the build can use as many GPUs as are planned for."""
    planned = sum(share.device.startswith("gpu") for share in plan.memory.per_device)
    if not planned:
        return True, "the plan is for the CPU"
    build = with_devices(launch.found_build)
    found = build.devices
    said = f"{planned} GPUs planned; {build.name} can use {', '.join(found) or 'none'}"
    return len(found) >= planned, said


def client(base_url: str, *, model: str) -> LlamaClient:
    """A client of the server at this address, which serves this file."""
    return LlamaClient(base_url, model=Path(model))


def root_error(lines: Sequence[str]) -> str | None:
    """The engine's own reason for ending, from its log."""
    return llama_log.root_error(lines)


def _sharing(plan: Plan) -> tuple[str, ...]:
    """Slots with caches of their own, or a common one of which each may take its planned length."""
    if plan.request.kv_unified:
        return ("--kv-unified", "--kv-unified-per-slot", str(plan.context_len))
    return ("--no-kv-unified",)


def _cache(plan: Plan) -> tuple[str, ...]:
    """Types of the cache, and the caches beside it that would take gigabytes unasked."""
    request = plan.request
    key, value = _cache_type(request.cache_type_k), _cache_type(request.cache_type_v)
    flash = "on" if value.quantised and request.flash_attn == "auto" else request.flash_attn
    return (
        *("-ctk", key.name, "-ctv", value.name, "-fa", flash),
        *(("--swa-full",) if request.swa_full else ()),
        *("--cache-ram", str(-(-request.cache_ram_bytes // MIB))),
        *("--ctx-checkpoints", str(request.context_checkpoints)),
    )


def _cache_type(name: str) -> CacheType:
    return find_cache_type(CACHE_TYPES, "f16" if name == "auto" else name, engine="llama-server")


def _layers(plan: Plan) -> tuple[str, ...]:
    """How many layers go to GPUs and RPC servers, in which shares; without any in the plan, none."""
    request = plan.request
    offloads = request.rpc_servers or any(share.device.startswith("gpu") for share in plan.memory.per_device)
    asked = _ALL_LAYERS if request.gpu_layers is None else request.gpu_layers
    shares = ",".join(f"{share:g}" for share in request.tensor_split)
    return (
        *(("--rpc", ",".join(request.rpc_servers)) if request.rpc_servers else ()),
        *("-ngl", str(asked if offloads else 0)),
        *(("-ts", shares) if shares else ()),
        *(("-sm", request.split_mode) if request.split_mode != "layer" else ()),
        *(("-mg", str(request.main_gpu)) if request.main_gpu else ()),
        *(("-ot", ",".join(request.override_tensor)) if request.override_tensor else ()),
        *(("--cpu-moe",) if request.cpu_moe else ()),
        *(("--n-cpu-moe", str(request.n_cpu_moe)) if request.n_cpu_moe else ()),
    )


def _override_flags(model: str, context_len: int) -> tuple[str, str]:
    """The checkpoint's own limit lifted, and nothing scaled."""
    from ropewalk.serving.engines.llama_cpp.gguf_override import context_key

    return (_OVERRIDE, f"{context_key(Path(model))}=int:{context_len}")
