"""Where llama.cpp puts layers and weights: on RPC servers and GPUs, and the rest on the host.

Rules of llama.cpp b11434, src/llama-model.cpp:1500-1616 (blocks), src/llama-model-loader.cpp:1155-1277
(tensors) and common/common.h:1224-1243 (experts), unless a line says otherwise. Held against the engine
itself with a made device of CUDA's rules: buffers of weights, equal on every placement that was tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Literal

from ropewalk.errors import UsageError
from ropewalk.inspector.records import NamedBytes
from ropewalk.planner.engines import llama_builds
from ropewalk.planner.engines.llama_split import Cut, check_split, cut_of
from ropewalk.planner.parallel import split_layers
from ropewalk.planner.records import MemoryTerm, PlanRequest
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.weights import weights_term

_SERVER = re.compile(r"[^\s,]+:[0-9]{1,5}")
# What --cpu-moe and --n-cpu-moe look for in a name, common/common.h:1224.
EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
_EXPERTS = re.compile(EXPERTS)
# Names of buffers that -ot takes: the host's, and those of numbered devices (--list-devices).
_HOST_BUFFER = re.compile(r"CPU|.*_Host|CPU_.*")
_DEVICE_BUFFER = re.compile(r"(?:CUDA|ROCm|MUSA|Vulkan|SYCL|Metal|MTL|CANN)([0-9]*)")
# Tensors that are read before the first block stay on the host (LLM_TENSOR_LAYER_INPUT, src/llama-arch.cpp).
_INPUT = re.compile(r"^(?:token_embd|position_embd|token_types|per_layer_token_embd)\.")
_ROPE = "rope_f"  # rope_freqs, rope_factors_long and _short, which the first block brings
_TABLE = "token_embd.weight"
_HEAD = "output.weight"
_MATRICES = 3  # of a feed-forward, of one size
_MATRIX, _EXPERT = "blk.0.ffn_up.weight", "blk.0.ffn_up_exps.weight"  # what a block's bytes mostly are

PlaceKind = Literal["rpc", "gpu", "cpu"]


@dataclass(frozen=True, slots=True)
class Spot:
    """A device that layers can go to; ``node`` is 0 for this machine, then the RPC servers in order."""

    device: str
    kind: PlaceKind
    node: int
    usable_bytes: int | None


@dataclass(frozen=True, slots=True)
class Place:
    """A device with its range of blocks, how many of each group of layers, its weights.

    ``has_output`` marks the one that computes the logits, ``has_embedding`` those with a copy of the table,
    ``has_draft`` the one with the MTP block. ``cache_share`` is the part of each layer's cache that is here
    where layers are cut. ``largest_matrix`` are the bytes of a block's largest matrix
    among its weights: what is copied to a device for a long prompt where this is the host.
    """

    spot: Spot
    layers: tuple[int, int]
    counts: tuple[int, ...]
    weights: MemoryTerm
    has_output: bool
    has_embedding: bool
    has_draft: bool
    largest_matrix: int
    cache_share: float = 1.0


def spots_of(request: PlanRequest, num_gpus: int) -> tuple[Spot, ...]:
    """RPC servers in the order given, then the GPUs, and last the host, as ``--tensor-split`` counts them.

    llama.cpp puts RPC servers at the front, so that the output is computed here (src/llama.cpp). With
    ``--split-mode none`` there is one device, ``--main-gpu`` of them. The host has a budget of its own where
    there is no GPU on this machine.
    """
    servers = request.rpc_servers
    budgets = request.node_memory_bytes or (request.memory_bytes,) * (len(servers) + 1)
    if len(budgets) != len(servers) + 1:
        raise UsageError(
            f"{len(budgets)} sizes of memory for this machine and {len(servers)} RPC servers",
            where={"flag": "--memory", "value": list(budgets), "rpc_servers": list(servers)},
        )
    for name in servers:
        if not _SERVER.fullmatch(name):
            raise UsageError(f"{name!r} is no HOST:PORT", where={"flag": "--rpc", "value": name})
    here = budgets[0]
    devices = (
        *(Spot(f"rpc:{name}", "rpc", node, budgets[node]) for node, name in enumerate(servers, start=1)),
        *(Spot(f"gpu:{number}", "gpu", 0, here) for number in range(num_gpus)),
    )
    return (*_in_use(request, devices), Spot("cpu", "cpu", 0, None if num_gpus else here))


def _in_use(request: PlanRequest, devices: tuple[Spot, ...]) -> tuple[Spot, ...]:
    """The devices that the split mode leaves. Raises :class:`UsageError` for one that is not planned."""
    mode, main = request.split_mode, request.main_gpu
    if not devices or mode != "none":
        return devices
    if not 0 <= main < len(devices):
        raise UsageError(
            f"--main-gpu {main} is none of {len(devices)} devices, counted from 0",
            where={"flag": "--main-gpu", "value": main, "devices": len(devices)},
        )
    return (devices[main],)


def places_of(shape: ModelShape, request: PlanRequest, spots: Sequence[Spot]) -> tuple[Place, ...]:
    """What goes to each spot; without ``gpu_layers`` all blocks and the output layer leave the host.

    MTP blocks are counted like others, behind them (``n_layer_all``).
    """
    check_split(shape, request)
    host = len(spots) - 1
    blocks = num_blocks(shape)
    offloaded = blocks + 1 if request.gpu_layers is None else request.gpu_layers
    shares = _shares(request, spots)
    cut = cut_of(request, [spot.usable_bytes for spot in spots[:-1]])
    where = split_layers(
        blocks,
        gpu_layers=offloaded if host else 0,
        shares=shares[:1] if cut.cuts_caches else shares,  # all devices are one then
        output_first=llama_builds.OUTPUT_FIRST.maybe(request.engine_version),
    )
    homes = _Homes(tuple(host if home is None else home for home in where), host)
    pieces = _named(shape, request, homes, _rules(request, spots)) if shape.weights.tensors else ()
    pieces = pieces or _by_block(shape, request, homes)
    sums = _summed(_cut(pieces, cut) if cut.mode in ("row", "tensor") else pieces, len(spots))
    return tuple(_place(shape, homes, number, spot, sums, cut) for number, spot in enumerate(spots))


def _cut(pieces: Iterable[Piece], cut: Cut) -> Iterator[Piece]:
    for home, whole, largest, name in pieces:
        for spot, size, matrix in cut.pieces(name, home, whole, largest):
            yield spot, size, matrix, name


def num_blocks(shape: ModelShape) -> int:
    """Blocks that ``-ngl`` counts: those of the model, and stored MTP blocks behind them."""
    return shape.num_layers + (shape.mtp_layers if shape.weights.mtp else 0)


def _shares(request: PlanRequest, spots: Sequence[Spot]) -> Sequence[float]:
    """As given; else by memory, as llama.cpp does by free memory; else equal."""
    devices = spots[:-1]
    split = request.tensor_split
    if not split:
        return [float(spot.usable_bytes or 1) for spot in devices] or [1.0]
    if len(split) != len(devices) or min(split) < 0 or not (isfinite(sum(split)) and sum(split) > 0):
        names = ", ".join(spot.device for spot in devices) or "none"
        raise UsageError(
            f"--tensor-split {','.join(f'{share:g}' for share in split)} does not divide the devices of the "
            f"plan: {names}",
            where={"flag": "--tensor-split", "value": list(split), "devices": len(devices)},
        )
    return split


@dataclass(frozen=True, slots=True)
class _Homes:
    """The spot of each block and, last, of the output layer; ``host`` is the host's number."""

    spots: tuple[int, ...]
    host: int

    @property
    def output(self) -> int:
        """Where the logits are computed."""
        return self.spots[-1]

    def of_block(self, block: int) -> int:
        """The spot of a block; one that the model does not count goes with the last."""
        return self.spots[min(block, max(len(self.spots) - 2, 0))]

    def of_blocks(self, count: int) -> tuple[int, ...]:
        """The spots of the first blocks."""
        known = self.spots[:-1] or self.spots
        return known[:count] + (known[-1],) * (count - len(known))


Rule = tuple[re.Pattern[str], int]


def _rules(request: PlanRequest, spots: Sequence[Spot]) -> tuple[Rule, ...]:
    """Patterns of ``-ot`` with the spot of each, of which the first match wins; experts' come behind them,
    as the planned command writes them."""
    rules = [_override(text, spots) for text in request.override_tensor]
    if request.cpu_moe:
        rules.append((_EXPERTS, len(spots) - 1))
    return tuple(rules)


def _override(text: str, spots: Sequence[Spot]) -> Rule:
    """``PATTERN=BUFFER`` as a rule. Raises :class:`UsageError` for a pattern or a buffer that is none."""
    pattern, _, buffer = text.rpartition("=")
    where = {"flag": "--override-tensor", "value": text}
    if not pattern:
        raise UsageError(f"--override-tensor {text!r} is not PATTERN=BUFFER", where=where)
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--override-tensor {text}: {error}", where=where) from None
    number = _buffer_spot(buffer, spots)
    if number is None:
        known = ["CPU", *(f"CUDA{place}" for place, _ in enumerate(_gpus(spots)))]
        raise UsageError(
            f"--override-tensor {text}: the plan's devices have no buffer {buffer!r}, but {', '.join(known)}",
            where={**where, "allowed": known},
        )
    return compiled, number


def _buffer_spot(buffer: str, spots: Sequence[Spot]) -> int | None:
    """``CPU`` is the host, ``CUDA1`` the second GPU of this machine, ``RPC0[host:port]`` a server."""
    if _HOST_BUFFER.fullmatch(buffer):
        return len(spots) - 1
    for number, spot in enumerate(spots):
        if spot.kind == "rpc" and spot.device.removeprefix("rpc:") in buffer:
            return number
    found, gpus = _DEVICE_BUFFER.fullmatch(buffer), _gpus(spots)
    if found is None or int(found[1] or 0) >= len(gpus):
        return None
    return gpus[int(found[1] or 0)]


def _gpus(spots: Sequence[Spot]) -> list[int]:
    return [number for number, spot in enumerate(spots) if spot.kind == "gpu"]


# Of a tensor, or what counts as one: spot, bytes, bytes of the largest matrix of a block in it, name.
Piece = tuple[int, int, int, str]


@dataclass(frozen=True, slots=True)
class _Sums:
    """Bytes of weights per spot, and the largest matrix of a block on each."""

    sizes: tuple[int, ...]
    largest: tuple[int, ...]


def _summed(pieces: Iterable[Piece], count: int) -> _Sums:
    sizes, largest = [0] * count, [0] * count
    for spot, size, matrix, _ in pieces:
        sizes[spot] += size
        if matrix > largest[spot]:
            largest[spot] = matrix
    return _Sums(tuple(sizes), tuple(largest))


def _named(
    shape: ModelShape, request: PlanRequest, homes: _Homes, rules: tuple[Rule, ...]
) -> Iterator[Piece]:
    """Every tensor of a GGUF by its name; those of a block together where nothing tells them apart."""
    on_host = request.n_cpu_moe or 0
    tensors = shape.weights.tensors
    has_head = any(one.name == _HEAD for one in tensors)
    for one in tensors:
        if not one.blocks:
            yield from _loose(one.name, one.nbytes[0], homes, rules, tied=not has_head)
    apart = rules or request.split_mode in ("row", "tensor")
    for block, name, size, matrix in _each(tensors) if apart else _by_kind(tensors):
        if block >= shape.num_layers and not loads_mtp(request):
            continue
        home = homes.of_block(block)
        if rules:
            home = _ruled(name.replace("*", str(block), 1), home, rules)
        if block < on_host and _EXPERTS.search(name):
            home = homes.host
        yield home, size, matrix, name


Stored = tuple[int, str, int, int]  # block, name, bytes, and bytes of the largest matrix


def _each(tensors: Iterable[NamedBytes]) -> Iterator[Stored]:
    """The tensors of all blocks."""
    for one in filter(lambda one: one.blocks, tensors):
        is_matrix = one.name.endswith(".weight")
        for block, size in zip(one.blocks, one.nbytes, strict=True):
            yield block, one.name, size, size * is_matrix


@lru_cache(maxsize=256)  # a choice places the same tensors for every cache type
def _by_kind(tensors: tuple[NamedBytes, ...]) -> tuple[Stored, ...]:
    """The same bytes, a block's experts together and the rest of it, each under one of its names."""
    sums: dict[tuple[int, bool], Stored] = {}
    for block, name, size, matrix in _each(tensors):
        key = (block, bool(_EXPERTS.search(name)))
        _, first, have, largest = sums.get(key, (block, name, 0, 0))
        sums[key] = (block, first, have + size, max(largest, matrix))
    return tuple(sums.values())


def _loose(name: str, size: int, homes: _Homes, rules: tuple[Rule, ...], *, tied: bool) -> Iterator[Piece]:
    """The input stays on the host; a head that is tied to it is copied to the output's device."""
    yield _ruled(name, _loose_home(name, homes), rules), size, 0, name
    if name == _TABLE and tied and homes.output != homes.host:
        yield homes.output, size, 0, name


def _loose_home(name: str, homes: _Homes) -> int:
    if name.startswith(_ROPE):
        return homes.of_block(0)
    return homes.host if _INPUT.match(name) else homes.output


def loads_mtp(request: PlanRequest) -> bool:
    """MTP blocks were loaded whether they draft or not, until they were only where they do."""
    return bool(request.mtp) or not llama_builds.MTP_ON_DEMAND.surely(request.engine_version)


def _ruled(name: str, home: int, rules: tuple[Rule, ...]) -> int:
    """Where the first rule that matches puts it, else where it is."""
    return next((spot for pattern, spot in rules if pattern.search(name)), home)


def _by_block(shape: ModelShape, request: PlanRequest, homes: _Homes) -> Iterator[Piece]:
    """By block, where the names in the file that llama.cpp will read are not known."""
    weights = shape.weights
    if request.override_tensor:
        raise UsageError(
            "--override-tensor goes by the names of a GGUF, and this is none",
            where={"flag": "--override-tensor", "format": shape.stored_as},
        )
    on_host = shape.num_layers if request.cpu_moe else request.n_cpu_moe or 0
    spots = homes.of_blocks(len(weights.layers))
    for block, (home, size, experts) in enumerate(zip(spots, weights.layers, weights.experts, strict=True)):
        rest = size - experts
        yield home, rest, rest // _MATRICES, _MATRIX
        if experts:
            away = homes.host if block < on_host else home
            yield away, experts, experts // _MATRICES, _EXPERT
    yield homes.host, weights.embedding, 0, _TABLE
    if not weights.output_head and homes.output != homes.host:
        yield homes.output, weights.embedding, 0, _TABLE
    yield homes.output, weights.other + weights.output_head, 0, _HEAD
    if loads_mtp(request):
        yield homes.of_block(shape.num_layers), weights.mtp, 0, _MATRIX


def _place(shape: ModelShape, homes: _Homes, number: int, spot: Spot, sums: _Sums, cut: Cut) -> Place:
    is_part = cut.cuts_caches and number < homes.host
    home = 0 if is_part else number  # the devices are one, which stands for the first
    blocks = homes.of_blocks(shape.num_layers)
    here = [block for block, at in enumerate(blocks) if at == home]
    has_output = homes.output == home
    return Place(
        spot=spot,
        layers=(here[0], here[-1] + 1) if here else (0, 0),
        counts=tuple(sum(blocks[block] == home for block in group.indices) for group in shape.layers),
        weights=weights_term(shape, sums.sizes[number], source="sum of the tensors, mapped from the file"),
        has_output=has_output,
        has_embedding=number == homes.host or (has_output and not shape.weights.output_head),
        has_draft=homes.of_block(shape.num_layers) == home,
        largest_matrix=sums.largest[number],
        cache_share=cut.shares[number] if is_part else 1.0,
    )
