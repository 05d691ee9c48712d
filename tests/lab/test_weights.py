"""Weights in float32 as they stand in the files, read by rows, and what cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import save_file

from ropewalk.errors import CheckpointError
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.lab.weights import Weights

pytestmark = pytest.mark.extra


@pytest.fixture
def stored(tmp_path: Path) -> dict[str, torch.Tensor]:
    """Two tensors of 2 bytes an element."""
    tensors = {
        "model.embed_tokens.weight": torch.arange(24.0).reshape(6, 4).to(torch.bfloat16),
        "model.norm.weight": torch.tensor([1.5, -2.0, 0.25, 8.0], dtype=torch.float16),
    }
    save_file(tensors, tmp_path / "model.safetensors")
    return tensors


def weights_of(folder: Path) -> Weights:
    return Weights(folder, open_checkpoint(folder).tensors)


def test_rows_and_slices_are_those_of_the_file(stored: dict[str, torch.Tensor], tmp_path: Path) -> None:
    weights, table = weights_of(tmp_path), stored["model.embed_tokens.weight"].float()
    assert weights.bytes_read == 0
    rows = weights.rows("model.embed_tokens.weight", [5, 0, 5])
    assert rows.dtype == torch.float32
    assert torch.equal(rows, table[[5, 0, 5]])
    assert weights.bytes_read == 3 * 4 * 2  # three rows and nothing else
    assert torch.equal(torch.cat(list(weights.slices("model.embed_tokens.weight"))), table)
    assert torch.equal(weights.tensor("model.norm.weight"), stored["model.norm.weight"].float())


def test_a_file_that_was_cut_or_replaced_meanwhile(stored: dict[str, torch.Tensor], tmp_path: Path) -> None:
    path, weights = tmp_path / "model.safetensors", weights_of(tmp_path)
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(CheckpointError) as caught:
        weights.tensor("model.norm.weight")
    assert caught.value.code == "truncated_payload"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(CheckpointError, match="not a regular file"):
        weights.tensor("model.norm.weight")
    with pytest.raises(CheckpointError, match="is not there"):
        weights.tensor("model.nothing")
