"""A published config, saved again by the installed transformers, says the same of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.inspector.made import inspect

from ropewalk.errors import RopewalkError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.caches import CacheType
from ropewalk.planner.layers_cache import LogicalCache, logical_cache
from ropewalk.planner.model import shape_of

pytest.importorskip("transformers")
pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
BF16 = CacheType("bf16", 1, 2)
FACTS = (
    "num_hidden_layers", "hidden_size", "vocab_size", "num_attention_heads", "num_key_value_heads",
    "head_dim",
    "position_embedding", "rope_theta", "native_context", "supported_context",
)  # fmt: skip


# Where the library itself changes what is said, and how.
DIFFERS = {
    "Qwen--Qwen3-Omni-30B-A3B": "the corpus has a part of it, which the class fills with its defaults",
    "XiaomiMiMo--MiMo-V2-Flash": "the class counts the token itself into the window: 128 is saved as 129",
    "ipex-reduced--llava": "a test's config, which the class fills with Llama's defaults",
    "stepfun-ai--Step-3.7-Flash": "adapted by its source; the class reads other keys",
    "stepfun-ai--Step-3.7-Flash-FP8": "adapted by its source; the class reads other keys",
}


def saved_again(config: dict[str, Any]) -> dict[str, Any]:
    """As ``save_pretrained`` writes it. Raises whatever the library raises."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    loaded = CONFIG_MAPPING[config["model_type"]].from_dict(config)
    saved: dict[str, Any] = json.loads(loaded.to_json_string(use_diff=True))
    return saved


def cache(inspection: Inspection) -> LogicalCache | None:
    try:
        shape = shape_of(inspection)
    except RopewalkError:
        return None
    return logical_cache(shape.layers, context_len=65536, key=BF16, value=BF16, encoder_len=shape.encoder_len)


def test_the_corpus_says_the_same(shared: Path) -> None:
    wrong: list[str] = []
    compared = 0
    for path in sorted((shared / "corpus" / "configs").glob("*.json")):
        config = json.loads(path.read_text())
        if path.name.endswith("hf_quant_config.json") or "model_type" not in config:
            continue
        if path.stem in DIFFERS:
            continue
        try:
            again = saved_again(config)
        except Exception:  # a type that this version has no class of, or refuses
            continue
        before, after = inspect(config), inspect(again)
        compared += 1
        for name in FACTS:
            if before.value(name) != after.value(name):
                wrong.append(f"{path.stem}: {name} {before.value(name)} became {after.value(name)}")
        if cache(before) != cache(after):
            wrong.append(f"{path.stem}: the cache {cache(before)} became {cache(after)}")
    assert compared > 100
    assert wrong == [], "\n".join(wrong)
