"""Rotations of every model type: the library's own rotary embedding beside ours, from the same saved config.

A type whose class has no rotary embedding of its own must have none here.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from tests.inspector.made import inspect
from tests.types.library import generating_types
from tests.types.test_types import KNOWN

from ropewalk.inspector.records import Inspection
from ropewalk.inspector.rope_blocks import full_block, full_key, is_nested
from ropewalk.planner.rope.frequencies import Rotation, RotationInputs, rotation

transformers = pytest.importorskip("transformers")
pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
_TOWERS = ("Vision", "Audio", "Encoder")
DIFFERS = {
    "glm4_moe": "an odd width by default: 21 numbers of a head of 42",
    "glm4v_moe": "an odd width by default: 21 numbers of a head of 42",
    "minimax_m3_vl": "the class reads partial_rotary_factor, published configs state both",
    "minimax_m3_vl_text": "as the type around it",
}


def library_rotation(model_type: str, cls: str, layer_type: str | None) -> tuple[list[float], float] | None:
    """Rates and factor of the text model's rotary embedding as its class computes them.

    None where the module has no such class.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = CONFIG_MAPPING[model_type]()
    config = config.get_text_config(decoder=True)
    module = sys.modules[getattr(transformers, cls).__module__]
    names = [
        name
        for name in dir(module)
        if name.endswith("RotaryEmbedding") and not any(part in name for part in _TOWERS)
    ]
    if len(names) != 1:
        return None
    embedding = getattr(module, names[0])(config)
    prefix = f"{layer_type}_" if layer_type and hasattr(embedding, f"{layer_type}_inv_freq") else ""
    rates = getattr(embedding, f"{prefix}inv_freq").flatten().tolist()
    return rates, float(getattr(embedding, f"{prefix}attention_scaling", 1.0))


def our_rotation(found: Inspection) -> Rotation | None:
    blocks, rotary_dim = found.value("rope_parameters"), found.value("rotary_dim")
    if not blocks or not rotary_dim:
        return None
    full = next((layer.head_dim_k for layer in found.layers if layer.kind == "full"), None)
    size = found.value("qk_rope_head_dim") or full or found.value("head_dim") or rotary_dim
    inputs = RotationInputs(size, rotary_dim, found.value("max_position_embeddings"))
    return rotation(full_block(blocks), inputs)


@pytest.mark.parametrize("model_type", sorted(KNOWN & generating_types().keys()))
def test_the_rotation_of_a_type(model_type: str) -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if model_type in DIFFERS:
        pytest.xfail(DIFFERS[model_type])
    try:
        config = CONFIG_MAPPING[model_type]()
        saved: dict[str, Any] = json.loads(json.dumps(config.to_dict(), default=str))
        saved["transformers_version"] = transformers.__version__
        found = inspect(saved)
        blocks = found.value("rope_parameters")
        layer_type = full_key(blocks) if blocks and is_nested(blocks) else None
        expected = library_rotation(model_type, generating_types()[model_type], layer_type)
    except Exception as error:  # class defaults that do not fit each other, another signature
        pytest.skip(f"the library does not compute it: {error}")
    if expected is None:
        pytest.skip("no rotary embedding of its own, or several")
    rates, factor = expected
    if found.value("position_embedding") == "none":
        pytest.skip("the class has the embedding and does not use it by default")
    ours = our_rotation(found)
    assert ours is not None, found.value("position_embedding")
    # ERNIE 4.5 VL orders the pairs by axis.
    assert sorted(ours.rates) == pytest.approx(sorted(rates), rel=1e-5)
    assert ours.attention_factor == pytest.approx(factor, rel=1e-6)
