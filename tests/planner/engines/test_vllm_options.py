"""Options of vLLM that change what a start takes, or whether it starts: plan and check by one formula."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.planner.models import attention, inspection, llama_8b, recurrent

from ropewalk.checking import CheckResult, check_command
from ropewalk.errors import UsageError
from ropewalk.inspector.layer_kinds import ChunkedAttention
from ropewalk.inspector.records import Fact, Inspection
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.engines.vllm import VllmMemoryModel, memory_model
from ropewalk.planner.engines.vllm_adapters import adapters
from ropewalk.planner.engines.vllm_capacity import needed_bytes
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.units import GIB, MIB

H100 = Machine(kind="gpu", memory_bytes=int(79.19 * GIB), name="H100-80GB", multiprocessors=132)


def with_facts(model: Inspection, **facts: Any) -> Inspection:
    added = {name: Fact(value, "config", "") for name, value in facts.items()}
    return Inspection(
        model.checkpoint, {**model.facts, **added}, model.layers, model.block, model.weights, model.findings
    )


def granite() -> Inspection:
    """Granite 4 H-Small's shape: 4 attention layers of 36, Mamba2 of 48 x 64 x 128."""
    layers = (
        attention(range(4), kv=8, dim=128, heads=32),
        recurrent(range(4, 40), conv=(3, 3328), ssm=(48, 64, 128)),
    )
    model = inspection(layers, hidden=4096, inner=12_800, vocab=49_152, heads=32)
    return with_facts(model, mamba_chunk_size=256)


def priced(model: Inspection, context_len: int = 131_072, **options: Any) -> VllmMemoryModel:
    shape = shape_of(model, mtp=options.get("mtp", 0))
    return memory_model(PlanningCase(shape, PlanRequest(context_len, "vllm", **options), H100))


def planned(model: Inspection, **options: Any) -> Plan:
    return make_plan(model, PlanRequest(8192, "vllm", gpu="H100-80GB", **options))


def checked(model: Inspection, *words: str, version: str = "0.26.0") -> CheckResult:
    argv = ("vllm", "serve", "model", "--max-model-len", "8192", *words)
    return check_command(argv, inspection=model, engine_version=version, machine=H100)


def codes(result: CheckResult | Plan) -> set[str]:
    return {finding.code for finding in result.findings if finding.severity == "error"}


def activations_of(result: CheckResult) -> int:
    assert result.resolved.memory is not None
    term = result.resolved.memory.term("activations")
    assert term is not None
    return term.high_bytes


@pytest.mark.parametrize(
    ("version", "options", "block", "states"),
    [
        ("0.26.0", {}, 208, 1),  # no prefix caching by default: 12,6 Mi of state over 4,096 B a token
        ("0.26.0", {"prefix_caching": True}, 256, 512),  # all: one for each block of whole chunks
        ("0.26.0", {"prefix_caching": True, "mamba_cache_mode": "align"}, 208, 2),
        ("0.29.0", {"mamba_cache_mode": "all"}, 256, 512),
        ("0.29.0", {}, 208, 3),  # align, with a checkpoint of the prefill
        ("0.29.0", {"mamba_cache_mode": "align", "prefix_caching": False}, 208, 1),
        ("0.33.0", {"mamba_cache_mode": "all"}, 208, 3),
    ],
)
def test_modes_of_states(version: str, options: dict[str, Any], block: int, states: int) -> None:
    chosen = priced(granite(), engine_version=version, **options)
    assert chosen.block_size == block
    attends = -(-131_072 // block)
    assert chosen.request_blocks(131_072) == attends + 9 * states


def test_the_number_type_of_states_doubles_their_blocks() -> None:
    """48 x 64 x 128 states of 4 bytes beside 3 x 3,328 rows of 2, over 4,096 B a token."""
    chosen = priced(granite(), engine_version="0.26.0", mamba_ssm_cache_dtype="float32")
    assert chosen.block_size == 16 * -(-(48 * 64 * 128 * 4 + 3 * 3328 * 2) // (16 * 4096))
    result = checked(granite(), "--mamba-ssm-cache-dtype", "float32", "--kv-cache-memory-bytes", "8G")
    assert result.resolved.memory is not None
    assert result.resolved.memory.kv.block_size == chosen.block_size


def test_a_mode_that_is_gone_and_one_without_effect() -> None:
    assert codes(checked(granite(), "--mamba-cache-mode", "all", version="0.32.0")) == {"bad_value"}
    assert codes(checked(granite(), "--mamba-cache-mode", "all")) == set()
    words = ("--no-enable-prefix-caching", "--mamba-cache-mode", "align")
    found = checked(granite(), *words, version="0.32.0").findings
    assert "flag_without_effect" in {finding.code for finding in found}


@pytest.mark.parametrize(
    ("version", "batched", "stops"),
    [("0.19.0", 2048, False), ("0.20.0", 2048, True), ("0.32.0", 2048, True), ("0.32.0", 2496, False)],
)
def test_an_item_longer_than_a_batch(version: str, batched: int, stops: bool) -> None:
    """Gemma 4: a video of 32 x 78 tokens (vllm-project/vllm#42687, of 0.20)."""
    model = with_facts(llama_8b(), model_type="gemma4", image_tokens=280, image_attention="both ways")
    flag = ("--max-num-batched-tokens", str(batched))
    result = checked(model, *flag, version=version)
    assert ("item_above_batched_tokens" in codes(result)) is stops
    if stops:
        assert result.corrected is not None
        assert result.corrected.argv[-2:] == ("--max-num-batched-tokens", "2496")
    for left_out in (("--limit-mm-per-prompt", '{"video": 0}'), ("--language-model-only",)):
        assert codes(checked(model, *flag, *left_out, version=version)) == set()
    found = codes(planned(model, engine_version=version, max_batched_tokens=batched))
    assert ("item_above_batched_tokens" in found) is stops


def test_the_default_batch_is_raised_to_an_item() -> None:
    """engine/arg_utils.py: from 0.22 on; before, a card of less than 70 GiB stops."""
    model = with_facts(llama_8b(), model_type="gemma4", image_tokens=280, image_attention="both ways")
    request: dict[str, Any] = {"gpu": "L40S", "max_num_seqs": 64}
    old = make_plan(model, PlanRequest(8192, "vllm", engine_version="0.21.0", **request))
    assert "item_above_batched_tokens" in codes(old)
    new = make_plan(model, PlanRequest(8192, "vllm", engine_version="0.22.0", **request))
    assert "item_above_batched_tokens" not in codes(new)
    activations = new.memory.term("activations")
    assert activations is not None
    assert activations.source.startswith("2496 tokens")


def test_ngrams_cost_no_weights_and_one_step_in_flight() -> None:
    sliding = inspection(
        (attention(range(4), kv=8, dim=128, window=1024),), hidden=4096, inner=64, vocab=64, heads=32
    )
    options: dict[str, Any] = {"engine_version": "0.26.0", "max_batched_tokens": 8192}
    assert priced(sliding, **options).in_flight(131_072, 8192) == 16_384
    assert priced(sliding, speculative="ngram:5", **options).in_flight(131_072, 8192) == 8192
    plan = planned(llama_8b(), speculative="ngram:5")
    assert plan.memory.term("draft_model") is None


def test_a_draft_model_and_an_eagle_head() -> None:
    """A head that reads hidden states may share the target's table and head; a model of its own does not."""
    target, draft = llama_8b(), llama_8b()
    request = PlanRequest(8192, "vllm", gpu="H100-80GB", draft="draft", engine_version="0.26.0")
    own = make_plan(target, request, draft=draft).memory.term("draft_model")
    head = make_plan(
        target, PlanRequest(8192, "vllm", gpu="H100-80GB", draft="draft", speculative="eagle3:3"), draft=draft
    ).memory.term("draft_model")
    assert own is not None
    assert head is not None
    table = 2 * 128_256 * 4096 * 2
    assert own.bytes - head.bytes == table
    assert head.high_bytes >= own.bytes
    chosen = memory_model(PlanningCase(shape_of(target, draft=draft), request, H100))
    assert chosen.bytes_per_block(0) == 2 * 32 * 16 * 2 * 8 * 128 * 2


@pytest.mark.parametrize(
    ("version", "config", "stops"),
    [
        ("0.13.0", {"model": "x/y", "num_speculative_tokens": 3}, True),  # draft models came later
        ("0.26.0", {"model": "x/y", "num_speculative_tokens": 3}, False),
        ("0.26.0", {"model": "x/y-dflash", "num_speculative_tokens": 8}, True),  # 8 x 1,024 of 8,192
        ("0.19.0", {"model": "x/y-dflash", "num_speculative_tokens": 8}, False),
        ("0.26.0", {"method": "ngram", "num_speculative_tokens": 8}, False),
        ("0.26.0", {"method": "ngram"}, True),
        ("0.26.0", {"method": "telepathy", "num_speculative_tokens": 2}, True),
        ("0.26.0", {"method": "eagle3", "num_speculative_tokens": 2}, True),
        ("0.26.0", {"model": "x", "num_speculative_tokens": 2, "tensor_parallel_size": 1}, True),
    ],
)
def test_ways_of_drafting_that_are_refused(version: str, config: dict[str, Any], stops: bool) -> None:
    words = ("--speculative-config", json.dumps(config))
    assert ("speculation_refused" in codes(checked(llama_8b(), *words, version=version))) is stops
    dotted = [word for key, value in config.items() for word in (f"--speculative-config.{key}", str(value))]
    assert ("speculation_refused" in codes(checked(llama_8b(), *dotted, version=version))) is stops


def test_a_draft_that_is_not_read_leaves_memory_open() -> None:
    result = checked(llama_8b(), "--spec-model", "x/y", "--spec-tokens", "3")
    assert result.ok is None
    assert "memory_unknown" in {finding.code for finding in result.findings}
    assert checked(llama_8b(), "--spec-method", "ngram", "--spec-tokens", "3").ok is True


@pytest.mark.parametrize("asked", ["mtp:2", "ngram:0", "eagle:x", "eagle:2"])
def test_what_no_plan_can_draft_with(asked: str) -> None:
    with pytest.raises(UsageError):
        planned(llama_8b(), speculative=asked)


def test_chunked_layers_beside_a_head_are_priced_as_full_attention() -> None:
    chunks = ChunkedAttention(
        kind="chunked", indices=tuple(range(3, 12)), num_attention_heads=32, num_key_value_heads=8,
        head_dim_k=128, head_dim_v=128, window=8192,
    )  # fmt: skip
    model = inspection(
        (attention(range(3), kv=8, dim=128), chunks), hidden=4096, inner=64, vocab=64, heads=32
    )
    plain, beside = priced(model), priced(model, speculative="eagle3:2", draft="x")
    assert needed_bytes(beside, 131_072) == 12 * 131_072 * 2 * 8 * 128 * 2
    assert needed_bytes(plain, 131_072) < needed_bytes(beside, 131_072)


def test_adapters_by_their_matrices() -> None:
    """Llama-3.1-8B, rank 16: rows of 4,096 for q, k, v, gate and up, columns of their outputs, and o and
    down the other way round; table and head on top."""
    attends = 3 * 4096 + (4096 + 2 * 1024) + 4096 + 4096
    feeds = 2 * 4096 + 2 * 14_336 + 14_336 + 4096
    each = 16 * 2
    model = with_facts(llama_8b(), model_type="llama")
    plan = planned(model, lora=4)
    term = plan.memory.term("adapters")
    assert term is not None
    assert term.bytes == 4 * each * (32 * (attends + feeds) + 2 * (128_256 + 4096))
    half = adapters(
        shape_of(model),
        PlanRequest(8192, "vllm", lora=1, tensor_parallel=2),
        (0, 32),
        dtype_bytes=2,
        last=True,
    )
    cut = 3 * 4096 + 3072 + 2048 + 4096 + 2 * 4096 + 14_336 + 7168 + 4096
    assert half.bytes == each * (32 * cut + 2 * (128_256 + 4096))
    unknown = planned(with_facts(llama_8b(), model_type="phi3"), lora=4).memory.term("adapters")
    assert unknown is not None
    assert (unknown.low_bytes, unknown.high_bytes) == (4 * each * 32 * (attends + feeds), term.bytes)


def test_adapters_in_check_and_what_is_refused() -> None:
    model = with_facts(llama_8b(), model_type="llama")
    fine = checked(model, "--enable-lora", "--max-loras", "4")
    assert fine.resolved.memory is not None
    term = fine.resolved.memory.term("adapters")
    assert term == planned(model, lora=4).memory.term("adapters")
    assert codes(checked(model, "--enable-lora", "--max-lora-rank", "24")) == {"adapters_refused"}
    assert codes(planned(model, lora=1, max_lora_rank=24)) == {"adapters_refused"}
    large = with_facts(llama_8b(), model_type="qwen3", vocab_size=262_144)
    assert codes(checked(large, "--enable-lora")) == {"adapters_refused"}
    beside = ("--enable-lora", "--spec-method", "ngram", "--spec-tokens", "8")
    assert codes(checked(model, *beside)) == {"adapters_refused"}  # 9 x 1,024 of 8,192


def test_host_memory_for_weights_and_blocks() -> None:
    options: dict[str, Any] = {"cpu_offload_bytes": 4 * GIB, "kv_offloading_bytes": 20 * GIB}
    plain, plan = planned(llama_8b()), planned(llama_8b(), **options)
    device, host = plan.memory.per_device
    assert (host.device, host.fits, host.total_bytes) == ("cpu", None, 24 * GIB)
    assert plain.memory.per_device[0].weights_bytes - device.weights_bytes == 4 * GIB
    more = (plan.memory.kv.pool_bytes or 0) - (plain.memory.kv.pool_bytes or 0)
    assert more == 4 * GIB
    result = checked(llama_8b(), "--cpu-offload-gb", "4", "--kv-offloading-size", "20")
    assert result.ok is True
    assert result.resolved.memory is not None
    assert result.resolved.memory.per_device[1].total_bytes == 24 * GIB
    hybrid = checked(granite(), "--cpu-offload-gb", "4", version="0.11.0")
    assert codes(hybrid) == {"cpu_offload_hybrid"}
    assert codes(planned(granite(), cpu_offload_bytes=GIB)) == {"cpu_offload_hybrid"}


def test_eager_mode_and_sequences_change_what_is_measured() -> None:
    many = checked(llama_8b(), version="0.19.0")
    few = checked(llama_8b(), "--max-num-seqs", "16", version="0.19.0")
    assert activations_of(many) - activations_of(few) > GIB // 2
    eager = checked(llama_8b(), "--enforce-eager")
    assert eager.resolved.memory is not None
    graphs = eager.resolved.memory.term("cuda_graphs")
    assert graphs is not None
    assert graphs.high_bytes == 0


def test_drafting_adds_the_logits_that_are_verified() -> None:
    """Up to 0.22 every sequence's token is verified beside the one that is sampled."""
    plain = checked(llama_8b(), version="0.19.0")
    drafts = checked(llama_8b(), "--spec-method", "ngram", "--spec-tokens", "3", version="0.19.0")
    assert activations_of(drafts) - activations_of(plain) == 1024 * 128_256 * 2 * 2
    assert activations_of(plain) < 2 * GIB + 64 * MIB
