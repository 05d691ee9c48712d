"""Published models held to what transformers, vLLM and the Hub say of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import pytest
from tests.inspector.made import inspect, made

from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.inspector.records import Inspection


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def corpus(shared: Path) -> Path:
    return shared / "corpus"


@pytest.fixture(scope="module")
def models(corpus: Path) -> list[dict[str, Any]]:
    return list(load(corpus / "models.json"))


@pytest.fixture(scope="module")
def stored(corpus: Path, models: list[dict[str, Any]]) -> dict[str, tuple[dict[str, Any], Inspection]]:
    """Every model whose tensors are known: its record and our inspection."""
    found = {}
    for model in models:
        file = (model.get("header") or {}).get("file")
        if file:
            specs = {name: (dtype, shape) for name, (dtype, shape) in load(corpus / file).items()}
            found[model["id"]] = (model, inspect(load(corpus / model["config_file"]), specs))
    return found


def configs(corpus: Path) -> dict[str, Any]:
    files = [*(corpus / "configs").glob("*.json"), *(corpus / "configs_reconstructed").glob("*.json")]
    return {file.stem: load(file) for file in files if not file.stem.endswith("hf_quant_config")}


def indices(inspection: Inspection) -> list[int]:
    return sorted({index for group in inspection.layers for index in group.indices})


def test_every_config_gives_a_record_without_errors(corpus: Path) -> None:
    all_configs = configs(corpus)
    assert len(all_configs) == 328
    for name, config in all_configs.items():
        inspection = inspect(config)
        assert indices(inspection) == list(range(inspection.value("num_hidden_layers"))), name
        assert not [f for f in inspection.findings if f.severity == "error"], name
        assert inspection.layers, name


def test_headers_to_the_parameter_and_the_byte(stored: Mapping[str, Any]) -> None:
    assert len(stored) == 46
    for name, (model, inspection) in stored.items():
        assert inspection.checkpoint.tensor_bytes == model["header"]["total_bytes"], name
        assert inspection.checkpoint.stored_elements == model["header"]["n_elements"], name
        assert inspection.weights.total == model["header"]["total_bytes"], name
        if name != "deepseek-ai/DeepSeek-V2-Lite":  # counted there with a q_lora_rank that it does not have
            assert inspection.checkpoint.parameters == model["meta_params"]["unique"], name


def test_headers_contradict_no_published_config(stored: Mapping[str, Any]) -> None:
    told = {name: [f.code for f in inspection.findings] for name, (_, inspection) in stored.items()}
    assert {name: codes for name, codes in told.items() if codes} == {
        "Qwen/Qwen3-0.6B": ["tied_flag_but_lm_head_present"]
    }


def test_what_transformers_fills_in_is_what_we_take(corpus: Path) -> None:
    """A reconstructed config and transformers' full ``to_dict`` of it describe the same layers."""
    every = configs(corpus)
    pairs = [(name, f"{name}.full") for name in every if f"{name}.full" in every]
    assert len(pairs) == 65
    for short, full in pairs:
        one, other = inspect(every[short]), inspect(every[full])
        assert one.layers == other.layers, short
        for fact in ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads",
                     "head_dim", "vocab_size", "tie_word_embeddings", "max_position_embeddings"):  # fmt: skip
            assert one.value(fact) == other.value(fact), (short, fact)


def test_vllm_derives_the_same_architecture(corpus: Path, models: list[dict[str, Any]]) -> None:
    truths = load(corpus / "vllm_arch_groundtruth.json")["base"]
    files = {model["id"].lower(): model["config_file"] for model in models if model.get("config_file")}
    checked = 0
    for name, truth in truths.items():
        file = files.get(name.lower()) or files.get(name.lower().removesuffix("-instruct"))
        if file is None:
            continue
        inspection = inspect(load(corpus / file))
        kept = [
            group for group in inspection.layers if group.kind in ("full", "sliding", "latent", "chunked")
        ]
        assert {
            "hidden_size": inspection.value("hidden_size"),
            "total_num_hidden_layers": inspection.value("num_hidden_layers"),
            "total_num_attention_heads": inspection.value("num_attention_heads"),
            "total_num_kv_heads": inspection.value("num_key_value_heads"),
            "head_size": kept[0].head_dim_k if kept else 0,
            "vocab_size": inspection.value("vocab_size"),
            "num_experts": inspection.value("num_experts") or 0,
            "is_deepseek_mla": any(group.kind == "latent" for group in kept),
        }.items() <= truth.items(), name
        checked += 1
    assert checked == 9


@pytest.fixture(scope="module")
def sparse(shared: Path) -> dict[str, Any]:
    """The names of ``make_sparse.py``: configs and tensor lists of published checkpoints."""
    source = (shared / "tools" / "make_sparse.py").read_text().replace("\nmain()", "\n")
    names: dict[str, Any] = {}
    exec(compile(source, "make_sparse.py", "exec"), names)
    return names


def inspected(sparse: dict[str, Any], config: str, build: str) -> Inspection:
    specs = {name: (dtype, shape) for name, dtype, shape in sparse[build](sparse[config])}
    return inspect_checkpoint(made(sparse[config], specs))


def test_deepseek_v3(sparse: dict[str, Any]) -> None:
    inspection = inspected(sparse, "DEEPSEEK_V3", "deepseek_v3")
    assert inspection.checkpoint.num_tensors == 91_991
    (group,) = inspection.layers
    assert (group.kind, group.count, group.num_key_value_heads, group.head_dim_k) == ("latent", 61, 1, 576)
    assert inspection.checkpoint.parameters == 671_026_404_352 + inspection.value("mtp_parameters")
    assert inspection.value("mtp_layers") == 1
    assert inspection.weights is not None
    assert inspection.weights.total == 688_574_839_360
    assert len(inspection.weights.layers) == 61
    assert not inspection.findings


def test_gemma_3_27b(sparse: dict[str, Any]) -> None:
    inspection = inspected(sparse, "GEMMA3_27B", "gemma3")
    groups = {group.kind: group for group in inspection.layers}
    assert {kind: group.count for kind, group in groups.items()} == {"sliding": 52, "full": 10}
    # 10.41 GiB of keys and values at 131,072 tokens
    cells = 10 * 131_072 + 52 * (groups["sliding"].window or 0)
    assert round(cells * 2 * 16 * 128 * 2 / 2**30, 2) == 10.41
    assert inspection.value("max_position_embeddings") == 131_072
    assert inspection.checkpoint.parameters == 27_432_406_640
    assert inspection.value("vision_parameters") + inspection.value("projector_parameters") == 423_060_336


def test_qwen3_next(sparse: dict[str, Any]) -> None:
    inspection = inspected(sparse, "QWEN3_NEXT", "qwen3_next")
    groups = {group.kind: group for group in inspection.layers}
    assert (groups["full"].count, groups["full"].num_key_value_heads, groups["full"].head_dim_k) == (
        12,
        2,
        256,
    )
    assert 12 * 2 * 2 * 256 * 2 * 131_072 == 3 * 2**30
    elements = sum(prod(state.shape) for state in groups["recurrent"].state)
    assert (groups["recurrent"].count, 2 * elements) == (36, 1_097_728)
    assert not inspection.findings
