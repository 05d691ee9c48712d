"""A verdict is never better than what it rests on: broken checkpoints, lengths, sizes, versions, formats."""

from __future__ import annotations

import json
import shlex
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from tests.cli.conftest import Invoke, invoke

import ropewalk
from ropewalk import core
from ropewalk.cli.app import app
from ropewalk.planner.rope.versions import NEWEST

__all__ = ["invoke"]

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024, "head_dim": 128,
    "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 32000,
    "intermediate_size": 3072, "max_position_embeddings": 40960, "rope_theta": 1000000,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip
BLOCK = {
    "input_layernorm.weight": [1024], "mlp.down_proj.weight": [1024, 3072],
    "mlp.gate_proj.weight": [3072, 1024], "mlp.up_proj.weight": [3072, 1024],
    "post_attention_layernorm.weight": [1024], "self_attn.k_norm.weight": [128],
    "self_attn.k_proj.weight": [1024, 1024], "self_attn.o_proj.weight": [1024, 2048],
    "self_attn.q_norm.weight": [128], "self_attn.q_proj.weight": [2048, 1024],
    "self_attn.v_proj.weight": [1024, 1024],
}  # fmt: skip
Make = Callable[..., Path]


def shard(path: Path, tensors: dict[str, list[int]]) -> int:
    """A file of BF16 tensors whose data is a hole; returns the bytes of its data."""
    header: dict[str, Any] = {}
    end = 0
    for name, shape in tensors.items():
        begin, end = end, end + 2 * (shape[0] * (shape[1] if len(shape) > 1 else 1))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    raw = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(raw)) + raw)
        file.truncate(8 + len(raw) + end)
    return end


@pytest.fixture
def made(tmp_path: Path) -> Make:
    """A small Qwen3 in two shards; ``config`` changes what its config says."""

    def make(name: str = "model", **config: Any) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({**CONFIG, **config}))
        layers = [
            {f"model.layers.{layer}.{part}": shape for part, shape in BLOCK.items()} for layer in range(4)
        ]
        parts = {
            "model-00001-of-00002.safetensors": {
                "model.embed_tokens.weight": [32000, 1024], **layers[0], **layers[1],
            },
            "model-00002-of-00002.safetensors": {**layers[2], **layers[3], "model.norm.weight": [1024]},
        }  # fmt: skip
        size = sum(shard(folder / file, tensors) for file, tensors in parts.items())
        index = {name: file for file, tensors in parts.items() for name in tensors}
        text = json.dumps({"metadata": {"total_size": size}, "weight_map": index})
        (folder / "model.safetensors.index.json").write_text(text)
        return folder

    return make


def plan_of(folder: Path, **options: Any) -> ropewalk.Plan:
    asked: dict[str, Any] = {"context_len": 32768, "engine": "vllm", "memory_bytes": 24 * 1024**3, **options}
    return ropewalk.plan(folder, **asked)


def test_a_sound_checkpoint_is_planned_exactly(made: Make) -> None:
    plan = plan_of(made())
    assert (plan.positive, plan.may_start, plan.broken) == (True, True, ())
    weights = plan.memory.term("weights")
    assert weights is not None
    assert weights.low_bytes == weights.bytes == weights.high_bytes
    assert weights.basis != "estimate"


def test_a_missing_shard_is_in_the_plan_and_its_weights_are_no_longer_exact(made: Make) -> None:
    folder = made()
    whole = plan_of(folder).memory.term("weights")
    (folder / "model-00002-of-00002.safetensors").unlink()
    plan = plan_of(folder)
    weights = plan.memory.term("weights")
    assert whole is not None
    assert weights is not None
    assert [finding.code for finding in plan.broken] == ["missing_shards"]
    assert plan.broken[0] in plan.findings
    assert (plan.fit.fits, plan.positive, plan.may_start) == (True, False, False)
    assert weights.basis == "estimate"
    assert weights.low_bytes < whole.bytes <= weights.high_bytes
    assert weights.bytes == whole.bytes  # the index says how many there should be
    allowed = plan_of(folder, allow_broken=True)
    assert (allowed.positive, allowed.may_start) == (False, True)


def test_a_config_that_the_tensors_contradict_is_in_the_plan(made: Make) -> None:
    plan = plan_of(made(num_key_value_heads=16))
    assert "config_tensor_mismatch" in [finding.code for finding in plan.broken]
    assert not plan.positive
    weights = plan.memory.term("weights")
    assert weights is not None
    assert weights.basis == "estimate"


def test_nothing_broken_is_emitted_started_or_measured_unless_it_is_allowed(
    made: Make, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = made()
    (folder / "model-00002-of-00002.safetensors").unlink()
    words = ("plan", str(folder), "--context", "32k", "--engine", "vllm", "--memory", "24G")
    emitted = ("--emit", "shell", "--engine-version", "0.33.0", "--device", "cuda:0")
    assert invoke(*words).status == 1
    refused = invoke(*words, *emitted)
    assert refused.status == 1
    assert "#!/" not in refused.out
    allowed = invoke(*words, *emitted, "--allow-broken")
    assert allowed.status == 0, allowed.err
    assert "#!/" in allowed.out
    monkeypatch.setattr(core, "start", pytest.fail)
    assert invoke("serve", *words[1:]).status == 1
    data = json.loads(invoke(*words, "--json").out)
    assert data["broken"][0]["code"] == "missing_shards"


def test_a_measurement_of_a_broken_checkpoint_is_refused(made: Make, tmp_path: Path) -> None:
    folder = made()
    (folder / "model-00002-of-00002.safetensors").unlink()
    build = core.probe_host("vllm").build
    if build is None:
        pytest.skip("no vLLM is installed")
    with pytest.raises(ropewalk.UsageError) as raised:
        ropewalk.measure(folder, context_len=1024, engine="vllm", store=tmp_path / "runs.sqlite3")
    assert (raised.value.code, raised.value.exit_status) == ("missing_shards", 1)


def test_the_largest_context_is_one_that_is_not_refused(made: Make) -> None:
    folder = made()
    tight = plan_of(folder, memory_bytes=1024**3)
    assert (tight.fit.limited_by, tight.fit.largest_context_len) == ("memory", tight.fit.max_context_len)
    roomy = plan_of(folder, memory_bytes=640 * 1024**3)
    assert roomy.fit.limited_by in ("config", "publisher")
    largest = roomy.fit.largest_context_len
    assert largest is not None
    assert largest < (roomy.fit.max_context_len or 0)
    assert plan_of(folder, memory_bytes=640 * 1024**3, context_len=largest).positive
    anyway = plan_of(folder, memory_bytes=640 * 1024**3, allow_unvalidated=True).fit
    assert (anyway.limited_by, anyway.largest_context_len) == ("memory", anyway.max_context_len)


def test_a_folder_of_safetensors_is_not_planned_for_llama_server(made: Make, invoke: Invoke) -> None:
    folder = made()
    plan = plan_of(folder, engine="llama-server")
    wrong = next(finding for finding in plan.findings if finding.code == "format_not_read")
    assert f"convert_hf_to_gguf.py {folder} --outtype bf16" in wrong.message
    assert "--engine vllm" in wrong.message
    assert (plan.launch, plan.positive) == (None, False)
    assert invoke("plan", str(folder), "--context", "4k", "--engine", "llama-server").status == 1


def test_versions_that_nobody_knows(made: Make) -> None:
    folder = made()
    newest = ".".join(map(str, NEWEST["vllm"]))
    future = plan_of(folder, engine_version="9.9")
    said = next(finding for finding in future.findings if finding.code == "engine_version_unknown")
    assert f"the newest known, those of {newest}, are used" in said.message
    known = plan_of(folder, engine_version=f"{newest}.0")
    assert "engine_version_unknown" not in [finding.code for finding in known.findings]
    with pytest.raises(ropewalk.UsageError, match="'latest' is not a version"):
        plan_of(folder, engine_version="latest")


@pytest.mark.parametrize(
    ("written", "status"),
    [
        *(("79.19GiB", 0), ("24G", 0), ("24 GiB", 0), ("24GB", 0)),
        *(("24", 2), ("1048575", 2), ("0", 2), ("24X", 2)),
    ],
)
def test_sizes_are_read_as_they_are_written(made: Make, invoke: Invoke, written: str, status: int) -> None:
    outcome = invoke("plan", str(made()), "--context", "4k", "--engine", "vllm", "--memory", written)
    assert outcome.status == status, outcome.err


def test_a_memory_below_a_mebibyte_is_a_usage_error(made: Make) -> None:
    with pytest.raises(ropewalk.UsageError, match="24 bytes of memory hold no model") as raised:
        plan_of(made(), memory_bytes=24)
    assert raised.value.where["field"] == "memory_bytes"


@pytest.mark.engine
def test_lengths_beyond_the_context_are_refused(smollm2: Path, invoke: Invoke, tmp_path: Path) -> None:
    outcome = invoke(
        *("measure", str(smollm2), "--context", "1k", "--lengths", "2k"),
        *("--store", str(tmp_path / "runs.sqlite3")),
    )
    assert outcome.status == 2
    assert "2,048 tokens do not fit a context of 1,024" in outcome.err


def test_a_page_ends_with_what_starts_the_plan_here(made: Make, invoke: Invoke) -> None:
    folder = made("a model")
    words = ("--context", "4k", "--engine", "vllm", "--memory", "24G", "--kv-unified", "--device", "cuda:0")
    outcome = invoke("plan", str(folder), *words)
    last = outcome.out.splitlines()[-1]
    assert set(shlex.split(last)) >= {"serve", str(folder), "--context", "4096", "--kv-unified", "cuda:0"}
    command = app.get_command(click.Context(app), "serve")
    assert command is not None
    parsed = command.make_context("serve", shlex.split(last)[3:]).params
    assert (parsed["checkpoint"], parsed["memory_bytes"]) == (str(folder), (24 * 1024**3,))
    broken = made("broken")
    (broken / "model-00002-of-00002.safetensors").unlink()
    assert "here: ropewalk serve" not in invoke("plan", str(broken), *words).out


def test_one_shard_named_alone_is_no_whole_model(made: Make, invoke: Invoke) -> None:
    """It may be looked at; what rests on it is wrong, and never exact."""
    shard = made() / "model-00001-of-00002.safetensors"
    assert invoke("inspect", str(shard)).status == 0
    plan = plan_of(shard)
    weights = plan.memory.term("weights")
    assert [finding.code for finding in plan.broken] == ["single_shard"]
    assert plan.broken[0].severity == "error"
    assert weights is not None
    assert (plan.positive, weights.basis) == (False, "estimate")
    assert weights.low_bytes < weights.bytes
    checked = ropewalk.check(["vllm", "serve", str(shard)], memory_bytes=24 * 1024**3)
    assert checked.ok is False


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "", "cpu:0:1"])
def test_a_device_that_is_none_is_a_usage_error(made: Make, device: str) -> None:
    with pytest.raises(ropewalk.UsageError, match="is no device: auto, cpu, gpu or cuda:0"):
        plan_of(made(), device=device)


def test_no_more_sequences_are_offered_than_the_engine_takes(made: Make) -> None:
    """LLAMA_MAX_SEQ of llama.cpp."""
    options: dict[str, Any] = {"engine": "llama-server", "context_len": 32, "memory_bytes": 640 * 1024**3}
    assert plan_of(made(), **options).fit.max_sequences == 256
    with pytest.raises(ropewalk.UsageError, match="llama-server serves at most 256 at a time, not 257"):
        plan_of(made("other"), **options, num_sequences=257)


def test_memory_that_was_given_is_not_asked_for(invoke: Invoke, tmp_path: Path) -> None:
    unread = ("llama-server", "-m", str(tmp_path / "none.gguf"), "-c", "4096")
    outcome = invoke("check", "--memory", "8GiB", "--", *unread)
    assert outcome.status == 3
    assert "add --memory" not in outcome.out
