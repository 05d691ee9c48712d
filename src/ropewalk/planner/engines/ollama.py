"""How Ollama holds a model: it starts llama-server itself, with slots and a batch of its own choice.

Rules of Ollama 0.33.0-rc2 (commit fb30760, August 2026; llm/llama_server.go, server/sched.go,
server/routes.go), which pins llama.cpp b10488 (LLAMA_CPP_VERSION). Left out: architectures of which it
holds one sequence only (sched.go:507), and that it starts again with a smaller context where its own
default did not fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ropewalk.errors import UsageError
from ropewalk.findings import Finding
from ropewalk.planner.caches import CacheType
from ropewalk.planner.engines import llama_server
from ropewalk.planner.engines.llama_memory import LlamaMemoryModel
from ropewalk.planner.engines.llama_slots import CELL_PAD
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.machine import Machine, device_of
from ropewalk.planner.parallel import check_options
from ropewalk.planner.records import AdviceKind, MemoryTerm, PlanRequest, Traffic
from ropewalk.planner.terms import DeviceMemory, MemoryEstimate
from ropewalk.units import GIB, MIB, format_tokens

FIT_TYPES = ("f16", "q8_0", "q4_0")  # those that its documentation names
ATTAINED = llama_server.ATTAINED
MAX_SEQUENCES = 256  # LLAMA_MAX_SEQ (src/llama-cparams.h): more and the context is not made
_LLAMA_BUILD = "b10488"
# Tokens of a batch by those of all slots, sched.go generationBatchForContext: -b and -ub both. It takes a
# smaller one where memory is short.
_BATCHES = ((32768, 2048), (4096, 1024), (0, 512))
_SMALLEST_BATCH = 512
# Where neither a request, a Modelfile nor OLLAMA_CONTEXT_LENGTH names one (routes.go): by all GPUs' memory.
_DEFAULT_CONTEXTS = ((47 * GIB, 262_144), (23 * GIB, 32_768), (0, 4096))


def types_of(case: PlanningCase) -> tuple[CacheType, CacheType]:
    """OLLAMA_KV_CACHE_TYPE, of keys and values. Raises :class:`UsageError` where they differ."""
    request = case.request
    if request.cache_type_k != request.cache_type_v:
        raise UsageError(
            f"Ollama has one cache type for both, not {request.cache_type_k} and {request.cache_type_v}",
            where={"flag": "--cache-type", "k": request.cache_type_k, "v": request.cache_type_v},
        )
    return llama_server.types_of(case)


def usable_bytes(case: PlanningCase) -> int | None:
    """All of the budget."""
    return case.request.memory_bytes


def memory_model(case: PlanningCase) -> OllamaMemoryModel:
    """llama-server's, for each batch. Raises :class:`UsageError` for what Ollama has no setting for."""
    request = case.request
    _require_known(request)
    types_of(case)

    def model(batch: int) -> LlamaMemoryModel:
        return llama_server.memory_model(case.asking(as_served(request, batch)))

    if request.batch:
        return OllamaMemoryModel(((0, model(request.batch)),))
    return OllamaMemoryModel(tuple((above, model(batch)) for above, batch in _BATCHES))


def as_served(request: PlanRequest, batch: int) -> PlanRequest:
    """The request in llama-server's terms."""
    return replace(
        request, batch=batch, ubatch=batch, kv_unified=False, swa_full=False, engine_version=_LLAMA_BUILD
    )


@dataclass(frozen=True, slots=True)
class OllamaMemoryModel:
    """``models`` are llama-server's by the tokens above which each batch is taken, the largest first."""

    models: tuple[tuple[int, LlamaMemoryModel], ...]

    @property
    def step(self) -> int:
        """Cells come in whole pads."""
        return CELL_PAD

    def estimate_memory(self, context_len: int, num_sequences: int) -> MemoryEstimate:
        """What the llama-server holds that it starts; with the smallest batch where memory is short."""
        chosen, smallest = self._model(context_len * num_sequences), self.models[-1][1]
        estimated = chosen.estimate_memory(context_len, num_sequences)
        if chosen is smallest:
            return estimated
        least = smallest.estimate_memory(context_len, num_sequences)
        pairs = zip(estimated.devices, least.devices, strict=True)
        return replace(estimated, devices=tuple(_widened(device, small) for device, small in pairs))

    def shortfall_bytes(self, context_len: int, num_sequences: int) -> int:
        """What the batch of this length takes; a smaller one is not counted on."""
        return self._model(context_len * num_sequences).shortfall_bytes(context_len, num_sequences)

    def _model(self, tokens: int) -> LlamaMemoryModel:
        return next(model for above, model in self.models if tokens > above)


def _widened(device: DeviceMemory, small: DeviceMemory) -> DeviceMemory:
    """The terms down to what they are with the smallest batch."""
    least = {term.name: term for term in small.terms}
    return replace(device, terms=tuple(_down_to(term, least.get(term.name, term)) for term in device.terms))


def _down_to(term: MemoryTerm, least: MemoryTerm) -> MemoryTerm:
    if least.low_bytes >= term.low_bytes:
        return term
    return replace(term, low_bytes=least.low_bytes, basis="estimate")


def traffic(case: PlanningCase) -> tuple[Traffic, ...]:
    """No rule is known."""
    return ()


def alternatives(case: PlanningCase) -> tuple[tuple[AdviceKind, PlanRequest], ...]:
    """None, as with llama-server."""
    return ()


def findings(case: PlanningCase) -> list[Finding]:
    """What llama-server says, where the settings of the plan go, and what Ollama would serve without them."""
    request, machine = case.request, case.machine
    served = as_served(request, request.batch or _SMALLEST_BATCH)
    return [
        *llama_server.findings(case.asking(served)),
        *_unavailable(request),
        _settings(request),
        _default_context(request, machine),
    ]


def modelfile_of(request: PlanRequest) -> tuple[str, ...]:
    """The lines of a Modelfile that shape the server; FROM is the user's own."""
    numbers = {
        "num_ctx": request.context_len,
        "num_batch": request.batch,
        "num_gpu": 0 if request.device == "cpu" else request.gpu_layers,
    }
    return tuple(f"PARAMETER {name} {value}" for name, value in numbers.items() if value is not None)


def environment_of(request: PlanRequest) -> dict[str, str]:
    """What ``ollama serve`` is started with. It hands its environment on to llama-server, whose own variables
    switch off what takes host memory unasked (llama_server.go SetupLlamaServerCommandEnv)."""
    kind = "f16" if request.cache_type_k == "auto" else request.cache_type_k
    needed = "1" if kind not in ("f16", "f32", "bf16") else None
    flash = {"on": "1", "off": "0"}.get(request.flash_attn, needed)
    return {
        "OLLAMA_NUM_PARALLEL": str(request.num_sequences),
        "OLLAMA_KV_CACHE_TYPE": kind,
        **({"OLLAMA_FLASH_ATTENTION": flash} if flash else {}),
        "LLAMA_ARG_CACHE_RAM": str(-(-request.cache_ram_bytes // MIB)),
        "LLAMA_ARG_CTX_CHECKPOINTS": str(request.context_checkpoints),
    }


def _settings(request: PlanRequest) -> Finding:
    lines, variables = modelfile_of(request), environment_of(request)
    told = " ".join(f"{name}={value}" for name, value in variables.items())
    return Finding(
        "ollama_settings",
        "info",
        f"in the Modelfile: {', '.join(lines)}; in the environment of ollama serve: {told}",
        {"modelfile": list(lines), "environment": variables},
    )


def _default_context(request: PlanRequest, machine: Machine) -> Finding:
    on_gpu = device_of(request, machine, default="cpu") == "gpu"
    memory = (request.memory_bytes or machine.memory_bytes or 0) if on_gpu else 0
    memory *= request.gpus_per_node or request.tensor_parallel if on_gpu else 1
    default = next(tokens for least, tokens in _DEFAULT_CONTEXTS if memory >= least)
    return Finding(
        "ollama_default_context",
        "info",
        f"without num_ctx Ollama would serve {format_tokens(default)} tokens here, or what the file declares "
        "if that is less: 4,096 below 23 GiB of GPU memory, 32,768 below 47 GiB, 262,144 above",
        {"default_context": default, "context_len": request.context_len},
    )


def _unavailable(request: PlanRequest) -> list[Finding]:
    """Settings of llama-server that Ollama does not hand on, which the plan therefore leaves out."""
    given = {
        "--swa-full": request.swa_full,
        "--kv-unified": request.kv_unified,
        "--ubatch": request.ubatch not in (None, request.batch),
    }
    names = [flag for flag, wanted in given.items() if wanted]
    if not names:
        return []
    message = f"Ollama has no setting for {', '.join(names)}: planned without"
    return [Finding("setting_unavailable", "warning", message, {"flags": names})]


def _require_known(request: PlanRequest) -> None:
    """Raise :class:`UsageError` for what changes the model that is served, and is not planned for Ollama."""
    check_options(request, frozenset())
    for flag, given in {"--draft": request.draft is not None, "--mtp": request.mtp}.items():
        if given:
            raise UsageError(
                f"no plan is made for Ollama with {flag}", where={"flag": flag, "engine": request.engine}
            )
