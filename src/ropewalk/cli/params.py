"""Parameter types of the command line: token counts and sizes with units, and the options of a plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from click.shell_completion import CompletionItem

from ropewalk.cli.command import option
from ropewalk.engines import planned_engines, served_engines
from ropewalk.errors import UsageError
from ropewalk.units import exact_size, parse_size, parse_tokens

if TYPE_CHECKING:
    from ropewalk.planner.options import PlanOptions, ServerOptions

    _PathType = click.ParamType[Path, Any]
    _IntegerType = click.ParamType[int, str]
    _ListType = click.ParamType[tuple[Any, ...], str]
else:
    _PathType = _IntegerType = _ListType = click.ParamType  # generic only since click 8.4


class UnitType(_IntegerType):
    """A whole number that may carry a unit; the resolved number is echoed beside a JSON document.

    A page shows the number itself, so the echo would only stand in front of the verdict there.
    """

    def __init__(self, name: str, parse: Callable[[str], int], noun: str) -> None:
        self.name = name
        self._parse = parse
        self._noun = noun

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The count that ``value`` stands for; a usage error names the option."""
        if isinstance(value, int):
            return value
        try:
            count = self._parse(value)
        except UsageError as error:
            self.fail(error.message, param, ctx)
        if ctx is not None and ctx.params.get("as_json") and not value.isdecimal():
            click.echo(f"{param.opts[0] if param else ''} {value} = {count:,} {self._noun}", err=True)
        return count

    def spell(self, value: int) -> str:
        """The count as it may be typed."""
        return exact_size(value) if self.name == "size" else str(value)


class ListType(_ListType):
    """Several values of one type with commas between them."""

    def __init__(self, item: click.ParamType[Any, str]) -> None:
        self.name = f"{item.name},..."
        self._item = item

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """Each part converted on its own."""
        if isinstance(value, tuple):
            return value
        return tuple(self._item.convert(part.strip(), param, ctx) for part in value.split(","))

    def spell(self, value: tuple[Any, ...]) -> str:
        """The values as they may be typed."""
        return ",".join(spell(self._item, one) for one in value)


class LinkType(ListType):
    """Bytes per second inside a node and, where given, between nodes; or the name of a system."""

    def __init__(self) -> None:
        super().__init__(SIZE)
        self.name = "speed"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """The speeds of a known system, or those given; a usage error names the option."""
        from ropewalk.planner.links import LINKS

        if isinstance(value, str) and value.lower() in LINKS:
            return LINKS[value.lower()]
        speeds = super().convert(value, param, ctx)
        if len(speeds) > 2:
            self.fail(f"{len(speeds)} speeds: one inside a node, and one between nodes", param, ctx)
        return speeds


class AutoCountType(_IntegerType):
    """A whole number from 0 on, or ``auto``, which is :data:`AUTO`."""

    name = "auto|N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The count, or :data:`AUTO`; a usage error names the option."""
        if isinstance(value, int):
            return value
        if value == "auto":
            return AUTO
        return click.IntRange(min=0).convert(value, param, ctx)

    def spell(self, value: int) -> str:
        """The count as it may be typed."""
        return "auto" if value == AUTO else str(value)


class ContextType(UnitType):
    """A number of tokens, or ``max``, which is 0: the longest that is allowed."""

    def __init__(self) -> None:
        super().__init__("tokens|max", parse_tokens, "tokens")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The count, 0 for ``max``; a usage error names the option."""
        if value == "max":
            return 0
        count = super().convert(value, param, ctx)
        return count or self.fail("a context has at least one token", param, ctx)


class NewFileType(_PathType):
    """A file to write: that it cannot be is told before the work, not after it."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; a usage error where its folder is not there or not to be written."""
        path = Path(value)
        if path.is_dir():
            self.fail(f"{path} is a folder", param, ctx)
        if not path.parent.is_dir():
            self.fail(f"there is no folder {path.parent}", param, ctx)
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            self.fail(f"{path} cannot be written", param, ctx)
        return path

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names of files, by the shell."""
        return [CompletionItem(incomplete, type="file")]


def spell(kind: click.ParamType[Any, Any], value: Any) -> str:
    """A converted value as it may be typed again."""
    return kind.spell(value) if isinstance(kind, UnitType | ListType | AutoCountType) else str(value)


AUTO = -1  # of a count that is looked for
TOKENS = UnitType("tokens", parse_tokens, "tokens")
SIZE = UnitType("size", parse_size, "bytes")
SERVED = served_engines()
ENGINES = planned_engines()
ENGINE_HELP = "Default: llama-server for a GGUF, vllm for everything else."
COUNT = click.IntRange(min=1)
FILE = click.Path(path_type=Path, dir_okay=False)
NEW_FILE = NewFileType()

_REQUEST, _MEMORY, _ENGINE, _SEVERAL = "What to serve", "Memory", "Engine", "Several devices"

longest_option = option(
    "--context", "context_len", type=ContextType(), required=True, group=_REQUEST,
    help="Tokens per sequence, prompt and answer together: 131072, 128k (x 1024), 1M (x 1024^2); max: the "
    "longest that memory, config and publisher allow.",
)  # fmt: skip
context_option = option(
    "--context", "context_len", type=TOKENS, required=True, group=_REQUEST,
    help="Tokens per sequence, prompt and answer together: 131072, 128k (x 1024), 1M (x 1024^2).",
)  # fmt: skip

# What changes the plan but not what may be asked of a measurement.
_PLANNING = (
    option("--arm", metavar="ARM", group=_REQUEST,
           help="Rope: auto, shipped (as it is), yarn:F (this factor), unscaled (only lift the limit)."),
    option("--allow-unvalidated", is_flag=True, default=None, group=_REQUEST,
           help="Go past what the publisher of the model describes."),
    option("--memory", "memory_bytes", type=ListType(SIZE), metavar="SIZE[,SIZE,...]", group=_MEMORY,
           help="Budget per device: 24GiB, 24GB (10^9) or bytes; one per node where they differ. Without it: "
           "what it takes."),
    option("--gpu", metavar="[Nx]NAME", group=_MEMORY,
           help="Plan for this card, or so many of it: H100-80GB, 2xL40S, 'RTX 4090'."),
    option("--engine", type=click.Choice(ENGINES), group=_ENGINE,
           help=ENGINE_HELP),
    option("--engine-version", metavar="V", group=_ENGINE,
           help="Plan for this version instead of the installed one."),
)  # fmt: skip
_SERVER = (
    option("--sequences", "num_sequences", type=COUNT, group=_REQUEST, metavar="N",
           help="Sequences held at once, each of the full context.  [default: 1]"),
    option("--allow-broken", is_flag=True, default=None, group=_REQUEST,
           help="Go on in spite of errors that the inspection of the checkpoint found."),
    option("--mtp", is_flag=False, flag_value=1, type=COUNT, metavar="[N]", group=_REQUEST,
           help="Speculative decoding by the checkpoint's own MTP layers, N tokens per step (alone: 1)."),
    option("--draft", metavar="CHECKPOINT", group=_REQUEST, help="Draft model for speculative decoding."),
    option("--speculative", metavar="METHOD[:N]", group=_REQUEST,
           help="vLLM: how N tokens per step are proposed: ngram, suffix; with --draft eagle, eagle3, "
           "medusa, dflash, draft_model."),
    option("--lora", is_flag=False, flag_value=1, type=COUNT, metavar="[N]", group=_REQUEST,
           help="vLLM: adapters that may work at once (alone: 1)."),
    option("--max-lora-rank", type=COUNT, metavar="R", group=_REQUEST,
           help="vLLM: the largest rank of an adapter.  [default: 16]"),
    option("--projector", metavar="FILE", group=_REQUEST,
           help="llama-server: multimodal projector (vision, audio), an mmproj file."),
    option("--cache-type", metavar="T", group=_MEMORY, help="KV cache type of keys and values."),
    option("--cache-type-k", metavar="T", group=_MEMORY, help="KV cache type of the keys alone."),
    option("--cache-type-v", metavar="T", group=_MEMORY, help="KV cache type of the values alone."),
    option("--cache-ram", "cache_ram_bytes", type=SIZE, group=_MEMORY,
           help="llama-server: prompt cache in host memory; off unless given."),
    option("--context-checkpoints", type=COUNT, metavar="N", group=_MEMORY,
           help="llama-server: checkpoints per sequence; off unless given."),
    option("--device", metavar="D", group=_ENGINE, help="auto, cpu, cuda:0, ..."),
    option("--tensor-parallel", type=COUNT, metavar="N", group=_ENGINE, help="Devices per layer."),
    option("--pipeline-parallel", type=COUNT, metavar="N", group=_ENGINE, help="Stages of layers."),
    option("--max-batched-tokens", type=COUNT, metavar="N", group=_ENGINE,
           help="vLLM: tokens in flight per step."),
    option("--max-num-seqs", type=COUNT, metavar="N", group=_REQUEST,
           help="vLLM: sequences that may run at once, of any length.  [default: --sequences]"),
    option("--gpu-memory-utilization", type=click.FloatRange(0, 1, min_open=True), metavar="F", group=_MEMORY,
           help="vLLM: its share of each device.  [default: the version's]"),
    option("--kv-cache-memory-bytes", type=SIZE, metavar="SIZE", group=_MEMORY,
           help="vLLM: the pool of each device, instead of what the share leaves."),
    option("--enforce-eager", is_flag=True, default=None, group=_ENGINE, help="vLLM: no CUDA graphs."),
    option("--dtype", metavar="T", group=_ENGINE, help="vLLM: what it computes in: auto, bfloat16, ..."),
    option("--quantization", metavar="M", group=_ENGINE,
           help="vLLM: quantise the weights while loading: fp8."),
    option("--prefix-caching/--no-prefix-caching", default=None, group=_MEMORY,
           help="vLLM: keep what prompts begin with.  [default: the version's]"),
    option("--mamba-cache-mode", type=click.Choice(["none", "align", "all"]), group=_MEMORY,
           help="vLLM: how states of recurrent layers are kept for prefixes."),
    option("--mamba-ssm-cache-dtype", metavar="T", group=_MEMORY,
           help="vLLM: number type of recurrent states: auto, float32, bfloat16, float16."),
    option("--cpu-offload", "cpu_offload_bytes", type=SIZE, metavar="SIZE", group=_MEMORY,
           help="vLLM: weights of each device that stay in host memory."),
    option("--kv-offloading-size", "kv_offloading_bytes", type=SIZE, metavar="SIZE", group=_MEMORY,
           help="vLLM: host memory of all devices for blocks that leave them."),
    option("--language-model-only", is_flag=True, default=None, group=_ENGINE,
           help="vLLM: leave out the towers that see or hear."),
    option("--batch", type=COUNT, metavar="N", group=_ENGINE, help="llama-server: logical batch."),
    option("--ubatch", type=COUNT, metavar="N", group=_ENGINE, help="llama-server: physical batch."),
    option("--flash-attn", type=click.Choice(["on", "off", "auto"]), group=_ENGINE,
           help="llama-server: flash attention."),
    option("--gpu-layers", type=AutoCountType(), metavar="auto|N", group=_ENGINE,
           help="llama-server: layers on the GPU; auto: as many as fit.  [default: all]"),
    option("--n-cpu-moe", type=AutoCountType(), metavar="auto|N", group=_ENGINE,
           help="llama-server: experts of the first N layers stay in host memory; auto: as few as fit."),
    option("--cpu-moe", is_flag=True, default=None, group=_ENGINE,
           help="llama-server: all experts stay in host memory."),
    option("--override-tensor", type=ListType(click.STRING), metavar="PATTERN=BUFFER,...", group=_ENGINE,
           help="llama-server: tensors by name: '\\.ffn_up_exps=CPU'; the first match counts."),
    option("--kv-unified/--no-kv-unified", default=None, group=_ENGINE,
           help="llama-server: one pool for all sequences, or one each."),
    option("--swa-full", is_flag=True, default=None, group=_ENGINE,
           help="llama-server: keep all of a sliding window layer's cache."),
)  # fmt: skip

_DEVICES = (
    option("--nodes", type=COUNT, metavar="N", group=_SEVERAL, help="vLLM: machines.  [default: 1]"),
    option("--gpus-per-node", type=COUNT, metavar="N", group=_SEVERAL,
           help="Devices of each machine.  [default: as many as it takes]"),
    option("--data-parallel", type=COUNT, metavar="N", group=_SEVERAL,
           help="vLLM: replicas, to which the sequences are dealt out."),
    option("--expert-parallel", is_flag=True, default=None, group=_SEVERAL,
           help="vLLM: whole experts on each rank instead of slices of all."),
    option("--decode-context-parallel", type=COUNT, metavar="N", group=_SEVERAL,
           help="vLLM: ranks that would repeat a KV head share its tokens."),
    option("--layer-partition", type=ListType(COUNT), metavar="N,N,...", group=_SEVERAL,
           help="vLLM: layers of each pipeline stage."),
    option("--block-size", type=COUNT, metavar="N", group=_ENGINE, help="vLLM: tokens per block."),
    option("--tensor-split", type=ListType(click.FloatRange(min=0)), metavar="SHARE,...", group=_SEVERAL,
           help="llama-server: shares of the RPC servers and, behind them, the GPUs."),
    option("--split-mode", type=click.Choice(["layer", "none"]), group=_SEVERAL,
           help="llama-server: layers over all GPUs, or all on one (--main-gpu)."),
    option("--main-gpu", type=click.IntRange(min=0), metavar="N", group=_SEVERAL,
           help="llama-server: the GPU of --split-mode none, counted from 0."),
    option("--rpc", "rpc_servers", type=ListType(click.STRING), metavar="HOST:PORT,...", group=_SEVERAL,
           help="llama-server: ggml-rpc-servers that take layers. --memory: this machine first."),
    option("--link-speed", type=LinkType(), metavar="SPEED[,SPEED]", group=_SEVERAL,
           help="What a device sends per second inside a node and between nodes, 450GB,50GB, or h100-sxm: "
           "the time that vLLM's ranks wait for each other."),
    option("--fit", type=click.Choice(["nodes"]), group=_SEVERAL,
           help="vLLM: find the fewest devices of this --memory and --gpus-per-node that hold it."),
)  # fmt: skip


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that shape a server, whatever it is started for."""
    return _with(_SERVER, command)


def plan_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add every option of a plan."""
    return _with(_PLANNING, _with(_SERVER, _with(_DEVICES, command)))


def _with(options: Sequence[Callable[[Any], Any]], command: Callable[..., Any]) -> Callable[..., Any]:
    for add in reversed(options):
        command = add(command)
    return command


def plan_options_of(context_len: int, options: Mapping[str, Any]) -> PlanOptions:
    """What was given, by the names of the request; its own defaults hold for the rest."""
    return cast("PlanOptions", {"context_len": context_len, **server_options_of(options)})


def server_options_of(options: Mapping[str, Any]) -> ServerOptions:
    """The same without a length, as every arm of a measurement takes it."""
    fields = {name: value for name, value in options.items() if value is not None}
    for name, goal in (("gpu_layers", "gpu_layers"), ("n_cpu_moe", "cpu_moe")):
        if fields.get(name) == AUTO:
            del fields[name]
            fields["fit"] = goal
    sizes = fields.pop("memory_bytes", ())
    if len(sizes) == 1:
        fields["memory_bytes"] = sizes[0]
    elif sizes:
        fields["node_memory_bytes"] = sizes
    both = fields.pop("cache_type", None)
    if both is not None:
        if "cache_type_k" in fields or "cache_type_v" in fields:
            raise UsageError(
                "--cache-type sets keys and values; give it, or --cache-type-k and --cache-type-v"
            )
        fields |= {"cache_type_k": both, "cache_type_v": both}
    return cast("ServerOptions", fields)
