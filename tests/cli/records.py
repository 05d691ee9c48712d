"""Records to feed the front ends from, so that their tests read no file and start no engine.

Figures of Qwen3-8B are those of its tensors; sizes of estimates and recall are made up, and only there.
"""

from __future__ import annotations

from dataclasses import replace
from math import pi
from typing import Any

from ropewalk.findings import Finding
from ropewalk.inspector.derive.readable import read_by
from ropewalk.inspector.layer_kinds import AnyLayer, FullAttention, SlidingWindow
from ropewalk.inspector.records import (
    Block,
    BlockTensor,
    CheckpointFile,
    CheckpointSummary,
    DtypeTotal,
    Fact,
    Inspection,
    WeightBytes,
)
from ropewalk.measuring.assemble import fit_speed
from ropewalk.measuring.records import (
    ArmResult,
    Comparison,
    Measurement,
    MemoryTermSeen,
    Outcome,
    PairedRecall,
    RecallCell,
    SpeedPoint,
)
from ropewalk.planner.records import (
    Compute,
    Decode,
    DeviceShare,
    Fit,
    FitRow,
    KvCache,
    Launch,
    Mask,
    Memory,
    MemoryTerm,
    Plan,
    PlanRequest,
    Prefill,
    PromptWork,
    RopeDecision,
)
from ropewalk.planner.rope.table import RopePair, RopeTable
from ropewalk.serving.host.devices import Hardware
from ropewalk.units import GIB, MIB

LYING = Finding(
    "config_tensor_mismatch",
    "error",
    "num_key_value_heads: config.json says 4, the tensors say 8",
    {"field": "num_key_value_heads", "config": 4, "tensor": 8},
)


def qwen3_8b() -> Inspection:
    """Qwen3-8B as published: 399 tensors, BF16, five files."""
    facts: dict[str, Any] = {
        "architecture": "Qwen3ForCausalLM", "model_type": "qwen3", "num_hidden_layers": 36,
        "hidden_size": 4096, "intermediate_size": 12288, "vocab_size": 151936, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "gqa_ratio": 4, "rope_theta": 1000000,
        "rope_scaling": None, "max_position_embeddings": 40960, "native_context": 32768,
        "supported_context": 131072, "sliding_window": None, "quantization": None, "num_experts": None,
        "num_experts_per_tok": None, "mtp_layers": 0,
    }  # fmt: skip
    records = {name: Fact(value, "config", f"config.json: {name}") for name, value in facts.items()}
    records["num_key_value_heads"] = Fact(8, "tensor", "k_proj.weight [1024, 4096] / head_dim")
    records["tie_word_embeddings"] = Fact(False, "tensor", "lm_head.weight is stored")
    records["read_by"] = read_by("safetensors", (), records["quantization"])
    tensors = (("self_attn.q_proj.weight", (4096, 4096)), ("self_attn.k_proj.weight", (1024, 4096)))
    return Inspection(
        checkpoint=CheckpointSummary(
            source="models/Qwen3-8B",
            kind="model",
            format="safetensors",
            files=tuple(CheckpointFile(f"model-0000{n}-of-00005.safetensors", 3 * GIB) for n in range(1, 6)),
            num_tensors=399,
            tensor_bytes=16381470720,
            stored_elements=8190735360,
            parameters=8190735360,
            dtypes={"BF16": DtypeTotal(399, 16381470720)},
        ),
        facts=records,
        layers=(FullAttention(tuple(range(36)), 32, 8, 128, 128),),
        block=Block(
            192946432,
            41943296,
            151003136,
            tuple(BlockTensor(name, shape, shape[0] * shape[1]) for name, shape in tensors),
        ),
        weights=WeightBytes(1244659712, 1244659712, 8192, (385892864,) * 36, (0,) * 36, 0, 0),
        findings=(),
    )


def lying() -> Inspection:
    """The same with a config that the tensors contradict."""
    return replace(qwen3_8b(), findings=(Finding("unknown_model_type", "warning", "not known"), LYING))


def hybrid_layers() -> tuple[AnyLayer, ...]:
    """The layers of Gemma-3-27B: five sliding, one full, ten times, and two sliding."""
    full = tuple(range(5, 60, 6))
    sliding = tuple(index for index in range(62) if index not in full)
    return (
        SlidingWindow(sliding, 32, 16, 128, 128, window=1024),
        FullAttention(full, 32, 16, 128, 128),
    )


def yarn(factor: float, origin: int) -> RopeDecision:
    """A YaRN decision as the planner writes it."""
    return RopeDecision(
        decision="scale",
        type="yarn",
        factor=factor,
        original_max_position_embeddings=origin,
        attention_factor=1.138629436,
        reason=f"{round(factor * origin):,} / {origin:,}, the publisher's rule",
        source="QwenLM/Qwen3 docs",
        vllm_hf_overrides={"max_position_embeddings": round(factor * origin)},
    )


UNSCALED = RopeDecision("none", None, None, None, None, "within the trained context", "derived")


def qwen3_plan() -> Plan:
    """131,072 tokens of Qwen3-8B on 48 GiB with vLLM: it fits."""
    kv = KvCache(147456, 18 * GIB, 18 * GIB + 147456 * 16, 0, 16, 8193, 1.0)
    return Plan(
        request=PlanRequest(context_len=131072, engine="vllm", memory_bytes=48 * GIB),
        checkpoint="models/Qwen3-8B",
        context_len=131072,
        native_context=32768,
        supported_context=131072,
        rope=yarn(4.0, 32768),
        memory=_memory(kv),
        fit=Fit(
            48 * GIB, True, 188416, 1,
            (FitRow("bf16", 188416, 1), FitRow("fp8", 376832, 2), FitRow("f32", None, None)),
            largest_context_len=188_416,
            limited_by="memory",
        ),
        compute=Compute(
            Prefill(1_821_000_000_000_000, 10_133_000_000_000_000, 5_066_000_000_000_000),
            0.74, 47104, 1024 * GIB, Mask(8_590_000_128, None), Decode(35_700_000_000, 35_000_000_000),
        ),
        findings=(
            Finding("short_text_degradation", "warning", "YaRN applies to short prompts too"),
        ),
        launch=Launch(
            "vllm", "0.33.0",
            ("serve", "models/Qwen3-8B", "--max-model-len", "131072"),
            {},
            "vllm serve models/Qwen3-8B --max-model-len 131072 --max-num-seqs 1 --hf-overrides "
            """'{"max_position_embeddings":131072,"rope_parameters":{"rope_type":"yarn"}}'""",
            "rules",
        ),
    )  # fmt: skip


def _memory(kv: KvCache) -> Memory:
    terms = (
        MemoryTerm("weights", 16381470720, 16381470720, 16381470720, "exact", "sum of the tensors"),
        MemoryTerm("kv_cache", *(kv.reserved_bytes,) * 3, "engine_rule", "vLLM 0.33.0 kv_cache_interface"),
        MemoryTerm("activations", 2 * GIB, GIB, 3 * GIB, "estimate", "8,192 tokens in flight"),
        MemoryTerm("cuda_graphs", GIB // 2, GIB // 4, GIB, "estimate", "capture sizes up to 256"),
    )
    total, high = sum(term.bytes for term in terms), sum(term.high_bytes for term in terms)
    share = DeviceShare("cuda:0", 16381470720, kv.reserved_bytes, total, True, (0, 36))
    return Memory(terms, total, high, kv, (share,))


def too_large() -> Plan:
    """The same on 24 GiB: it does not."""
    plan = qwen3_plan()
    finding = Finding("does_not_fit", "error", "needs 34.51 GiB at least, the budget is 24.00 GiB")
    return replace(
        plan,
        fit=Fit(24 * GIB, False, 40960, None, (FitRow("bf16", 40960, None),), None, 40960, "memory"),
        findings=(*plan.findings, finding),
    )


def no_budget() -> Plan:
    """The same without a budget."""
    return replace(qwen3_plan(), fit=Fit(None, None, None, None, ()))


def refused() -> Plan:
    """A context that no rule supports."""
    refusal = RopeDecision(
        "refuse", None, None, None, None, "learned positions end at 1,024", "wpe.weight [1024, 768]"
    )
    return replace(qwen3_plan(), rope=refusal, launch=None)


def smollm2_measurement() -> Measurement:
    """Three arms of SmolLM2-135M at 12,288 tokens, one needle in five depths."""
    return Measurement(
        run_id="20261130-1549-7f3a",
        status="finished",
        created="2026-11-30T15:49:00Z",
        finished="2026-11-30T16:02:30Z",
        checkpoint="SmolLM2-135M-Instruct.Q4_1.gguf",
        checkpoint_fingerprint="sha256:" + "ab" * 32,
        machine=Hardware("Linux-6.1 x86_64", "Example CPU <2 cores>", 2, 23 * GIB),
        target_len=12288,
        settings={"lengths": [1945, 7885, 11878], "depths": [0.0, 0.25, 0.5, 0.75, 1.0], "seed": 7},
        arms=(
            _arm("shipped", "as shipped", 8192, {1945: ".#.##", 7885: ".#..#", 11878: "RRRRR"}),
            _arm("yarn:1.5", "YaRN 1.5", 12288, {1945: "####.", 7885: "..###", 11878: ".##x#"}),
            _arm("unscaled", "unscaled", 12288, {1945: ".#.##", 7885: ".#..#", 11878: "....."}),
        ),
        comparison=Comparison(
            12288,
            "yarn:1.5",
            "for 11,878 tokens YaRN 1.5: 3 of 5 against 0 of 5; five trials a length are a first look",
            (PairedRecall(11878, "yarn:1.5", "unscaled", 5, 3, 0, 0.25),),
        ),
        findings=(Finding("few_trials", "info", "5 trials per length: intervals are wide"),),
    )


_OUTCOMES: dict[str, Outcome] = {
    "#": "hit", ".": "miss", "x": "wrong_needle", "R": "refused", "T": "truncated",
}  # fmt: skip
_SPEEDS = {1945: 380.0, 7885: 232.0, 11878: 180.0}


def _arm(arm: str, label: str, context: int, rows: dict[int, str]) -> ArmResult:
    refused = {length for length, row in rows.items() if set(row) == {"R"}}
    cache = context * 23040  # bytes per token: 30 layers, 3 KV heads of 64, f16
    points = tuple(
        SpeedPoint(length, length / rate, rate, 40.5)
        for length, rate in _SPEEDS.items()
        if length not in refused
    )
    return ArmResult(
        arm=arm,
        label=label,
        launch=_launch(context),
        rope=yarn(1.5, 8192) if arm.startswith("yarn") else UNSCALED,
        context_planned=context,
        context_reported=context,
        ready_seconds=1.25,
        memory=(
            MemoryTermSeen("kv_cache", cache, cache, cache, "anonymous memory after loading"),
            MemoryTermSeen("compute_buffer", 28 * MIB, 27 * MIB, None, None),
        ),
        cells=tuple(
            cell(length, place / 4, mark) for length, row in rows.items() for place, mark in enumerate(row)
        ),
        effective_context_absolute=None,
        effective_context_relative=7885 if arm.startswith("yarn") else None,
        speed=points,
        speed_fit=fit_speed(points, [PromptWork(11878, Prefill(25, 30, 15), Decode(1, 1))]),
    )  # fmt: skip


def _launch(context: int) -> Launch:
    argv = ("-m", "SmolLM2-135M-Instruct.Q4_1.gguf", "-c", str(context), "-np", "1")
    return Launch("llama-server", "b11549", argv, {}, " ".join(("llama-server", *argv)), "rules")


def cell(length: int, depth: float, marks: str, *, task: str = "niah_single") -> RecallCell:
    """A cell of the heatmap from one character per trial."""
    outcomes: dict[str, int] = {}
    for mark in marks:
        outcomes[_OUTCOMES[mark]] = outcomes.get(_OUTCOMES[mark], 0) + 1
    hits = outcomes.get("hit", 0)
    judged = len(marks) - outcomes.get("refused", 0)
    low, high = (0.2, 1.0) if hits else (0.0, 0.8)
    return RecallCell(
        task, length, depth, len(marks), hits, outcomes, low if judged else None, high if judged else None
    )


def qwen3_rope() -> RopeTable:
    """The rotation table of Qwen3-8B at 131,072 tokens, YaRN 4.0 from 32,768 (range of pairs 23 to 40)."""
    pairs = []
    for index in range(64):
        rate = 1e6 ** (-index / 64)
        ramp = min(max((index - 23) / (40 - 23), 0.0), 1.0)
        scaled = rate * (1 - ramp) + rate / 4 * ramp
        pairs.append(RopePair(index, rate, 2 * pi / rate, scaled, 2 * pi / scaled, scaled / rate))
    return RopeTable(
        checkpoint="models/Qwen3-8B",
        engine="vllm",
        context_len=131072,
        native_context=32768,
        supported_context=131072,
        rope_theta=1e6,
        head_dim=128,
        rotary_dim=128,
        attention_factor=1.138629436,
        pairs=tuple(pairs),
        touched=tuple(range(24, 64)),
        incomplete=tuple(pair.index for pair in pairs if pair.rate * 32768 < 2 * pi),
        decision=yarn(4.0, 32768),
        findings=(),
    )
