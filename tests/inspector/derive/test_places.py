"""Names of many repositories: which blocks are the language model, what belongs elsewhere."""

from __future__ import annotations

import pytest
from tests.inspector.made import table_of

from ropewalk.inspector.derive.names import sort_names
from ropewalk.inspector.derive.places import Places, place


def placed(*names: str, layers: int | None = None) -> Places:
    table = table_of({name: ("F16", [2, 2]) for name in names})
    places = place(sort_names(table), num_hidden_layers=layers, mtp_layers=None)
    rows = [*places.embedding, *places.output_head, *places.other, *places.mtp_rows(), *places.tower_rows()]
    rows += [row for block in places.layers.values() for row in block]
    assert sum(row.count for row in rows) == len(names)  # every tensor is in one place
    return places


@pytest.mark.parametrize(
    "prefix",
    ["model.layers.", "model.language_model.layers.", "language_model.model.layers.", "transformer.h.", "h.",
     "gpt_neox.layers.", "backbone.layers.", "transformer.encoder.layers.", "bert.encoder.layer.", "blk.",
     "decoder.block.", "model.decoder.layers.", "model.transformer.blocks.", "layers."],
)  # fmt: skip
def test_stacks_of_language_models(prefix: str) -> None:
    towers = [
        f"{tower}.layers.{i}.q.weight" for tower in ("vision_tower.encoder", "audio_tower") for i in range(9)
    ]
    places = placed(*[f"{prefix}{layer}.q.weight" for layer in range(3)], *towers)
    assert places.prefix == prefix
    assert list(places.layers) == [0, 1, 2]
    assert {tower: len(blocks) for tower, blocks in places.towers.items()} == {"vision": 9, "audio": 9}


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("model.embed_tokens.weight", "embedding"), ("transformer.wte.weight", "embedding"),
        ("token_embd.weight", "embedding"), ("backbone.embeddings.weight", "embedding"),
        ("model.tok_embeddings.weight", "embedding"), ("model.embed_tokens.scales", "embedding"),
        ("transformer.embedding.word_embeddings.weight", "embedding"), ("shared.weight", "embedding"),
        ("lm_head.weight", "output_head"), ("output.weight", "output_head"),
        ("embed_out.weight", "output_head"),
        ("language_model.lm_head.weight", "output_head"), ("transformer.output_layer.weight", "output_head"),
        ("lm_head.scales", "output_head"),
        ("model.norm.weight", "other"), ("output_norm.weight", "other"), ("wpe.weight", "other"),
        ("mtp.fc.weight", "mtp"), ("model.mtp.norm.weight", "mtp"),
    ],
)  # fmt: skip
def test_tensors_outside_of_blocks(name: str, where: str) -> None:
    places = placed("model.layers.0.q.weight", name)
    assert [row.name for row in getattr(places, where)] == [name]


@pytest.mark.parametrize(
    ("name", "tower"),
    [
        ("multi_modal_projector.bias", "projector"), ("mm.0.weight", "projector"),
        ("model.visual.pos_embed.weight", "vision"), ("vision_model.class_embedding", "vision"),
        ("model.embed_vision.embedding_projection.weight", "projector"),
        ("audio_tower.conv1.weight", "audio"), ("model.encoder.embed_positions.weight", "encoder"),
    ],
)  # fmt: skip
def test_tensors_of_towers(name: str, tower: str) -> None:
    assert set(placed("model.layers.0.q.weight", name).towers) == {tower}


def test_mtp_blocks_in_both_spellings() -> None:
    apart = placed("model.layers.0.q.weight", "mtp.layers.0.q.weight", layers=1)
    numbered = placed("model.layers.0.q.weight", "model.layers.1.enorm.weight", layers=1)
    in_gguf = placed("blk.0.attn_q.weight", "blk.1.nextn.eh_proj.weight", layers=1)
    for places in (apart, numbered, in_gguf):
        assert (list(places.layers), len(places.mtp_blocks)) == ([0], 1)


def test_experts_are_one_row_whatever_their_number() -> None:
    names = [f"model.layers.0.mlp.experts.{e}.up_proj.weight" for e in range(7)]
    (row,) = placed(*names).layers[0]
    assert (row.name, row.count, row.nbytes) == ("mlp.experts.*.up_proj.weight", 7, 56)
    old = placed(*[f"blk.0.ffn_gate.{e}.weight" for e in range(3)])
    assert [(row.name, row.count) for row in old.layers[0]] == [("ffn_gate.*.weight", 3)]


def test_interleaved_blocks_are_sorted_by_number() -> None:
    places = placed("model.layers.10.a", "model.layers.2.a", "model.layers.10.b", "x", "model.layers.2.b")
    assert {number: [row.name for row in rows] for number, rows in places.layers.items()} == {
        2: ["a", "b"], 10: ["a", "b"],
    }  # fmt: skip
