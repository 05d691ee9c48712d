"""Every model type that transformers generates text with, built by the library and read by us.

``make types`` runs it with the group ``types`` of pyproject.toml. A type that a newer transformers adds is
listed, not a failure.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.types.library import TOKENS, build, generating_types

from ropewalk.errors import RopewalkError
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.derive.configs import ALIASES
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.planner.caches import CacheType
from ropewalk.planner.layers_cache import logical_cache
from ropewalk.planner.model import shape_of
from ropewalk.planner.untold import UNTOLD_TYPES

transformers = pytest.importorskip("transformers")
pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
BF16 = CacheType("bf16", 1, 2)
KNOWN = frozenset((Path(__file__).parent / "known.txt").read_text().split())
# What differs from the library on purpose, and why.
DIFFERS = {
    "bigbird_pegasus": "the config ties the head, the class does not",
    "pop2piano": "the config ties the head, the class does not",
    "vision-encoder-decoder": "the wrapper's word about ties is not the decoder's",
    "speech-encoder-decoder": "the wrapper's word about ties is not the decoder's",
    "cpmant": "32 tokens of a prompt are put before every text",
    "deepseek_v4": "the library keeps its one row twice, as keys and as values",
    "minimax": "the state is no attribute of the library's cache layer",
    "modernbert-decoder": "the library keeps one row less than the window",
    "speecht5": "the encoder's stack is the larger one",
    "unlimited_ocr": "the library's ring buffer has attributes of its own",
}


@pytest.mark.parametrize("model_type", sorted(KNOWN & generating_types().keys()))
def test_a_type_as_the_library_builds_it(model_type: str, tmp_path: Path) -> None:
    if model_type in DIFFERS:
        pytest.xfail(DIFFERS[model_type])
    try:
        built = build(model_type, generating_types()[model_type])
    except Exception as error:  # class defaults that do not fit each other, or a package that is not there
        pytest.skip(f"the library does not build it: {error}")
    found = inspect_checkpoint(open_checkpoint(built.write(tmp_path)))
    assert [finding.message for finding in found.findings if finding.severity == "error"] == []
    assert found.checkpoint.parameters in (None, pytest.approx(built.parameters, rel=1e-3))
    if not built.cached or built.cached == (0, 0):
        return
    try:
        shape = shape_of(found)
    except RopewalkError:
        return  # no dimensions, no plan
    cache = logical_cache(
        shape.layers, context_len=TOKENS, key=BF16, value=BF16, encoder_len=shape.encoder_len
    )
    kv, state = built.cached
    assert cache.kv_bytes == 2 * kv
    is_unknown = any("unknown" in finding.code for finding in found.findings)
    assert is_unknown or bool(cache.state_elements or cache.indexer_bytes) == bool(state)


@pytest.mark.xfail(
    strict=False, reason="held against 211 types of transformers 5.24; some of the others are off"
)
@pytest.mark.parametrize("model_type", sorted(KNOWN & generating_types().keys()))
def test_weights_from_the_config_alone(model_type: str, tmp_path: Path) -> None:
    """Within 3 %, or the type is among those of which the plan says that it cannot tell."""
    try:
        built = build(model_type, generating_types()[model_type])
        (tmp_path / "config.json").write_text(json.dumps(built.config))
        shape = shape_of(inspect_checkpoint(open_checkpoint(tmp_path)))
    except Exception as error:  # as above, or a dimension that no config of it states
        pytest.skip(str(error))
    weights = (shape.weights.total + shape.projector_bytes) / shape.dtype_bytes
    assert model_type in UNTOLD_TYPES or weights == pytest.approx(built.parameters, rel=0.03)


# Old names that are not read, and why.
NOT_READ = {
    ("head_dim", "qk_rope_head_dim"): "glm4_moe_lite: the rotated part of a latent key",
    ("intermediate_size", "moe_intermediate_size"): "every block has experts: their width has its own name",
    ("model_max_length", "max_position_embeddings"): "read under its own name",
    ("hidden_size", "text_hidden_size"): "a tower's",
}


@pytest.mark.parametrize("model_type", sorted(generating_types()))
def test_old_names_of_keys_are_read(model_type: str) -> None:
    """Each entry of ``attribute_map``; those to an encoder are left, as the decoder's own are read."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    canonical = {alias: name for name, aliases in ALIASES.items() for alias in (*aliases, name)}
    unread = {
        (new, old)
        for new, old in getattr(CONFIG_MAPPING[model_type], "attribute_map", {}).items()
        if new in canonical and "encoder" not in old and old not in ALIASES[canonical[new]]
    }
    assert unread - NOT_READ.keys() == set()


def test_new_types_are_listed() -> None:
    new = sorted(generating_types().keys() - KNOWN)
    if new:
        pytest.skip(f"transformers {transformers.__version__} has new types: {', '.join(new)}")
