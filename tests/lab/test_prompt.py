"""A text to tokens by the checkpoint's own tokenizer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.inspector.readers.files import write_json

from ropewalk.errors import CheckpointError, EngineMissingError, UsageError
from ropewalk.lab.prompt import tokens_of_ids, tokens_of_text
from ropewalk.lab.records import Token

WORDS: dict[str, Any] = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"the": 0, "cat": 1, "?": 2}, "unk_token": "?"},
}  # fmt: skip


@pytest.mark.extra
def test_a_text_is_told_token_by_token(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    write_json(tmp_path / "tokenizer.json", WORDS)
    assert tokens_of_text(tmp_path, "the cat sat") == (Token(0, "the"), Token(1, "cat"), Token(2, "?"))
    with pytest.raises(UsageError, match="no tokens"):
        tokens_of_text(tmp_path, " ")


@pytest.mark.extra
def test_a_tokenizer_that_is_none_or_missing_is_told(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    with pytest.raises(CheckpointError) as caught:
        tokens_of_text(tmp_path, "the")
    assert caught.value.code == "tokenizer_missing"
    write_json(tmp_path / "tokenizer.json", {"model": 1})
    with pytest.raises(CheckpointError, match="is no tokenizer"):
        tokens_of_text(tmp_path, "the")


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(EngineMissingError, match=r"ropewalk\[lab\]") as caught:
        tokens_of_text(tmp_path, "the")
    assert caught.value.code == "extra_missing"


def test_ids_are_taken_as_they_are() -> None:
    assert tokens_of_ids((5, 0)) == (Token(5, None), Token(0, None))
    with pytest.raises(UsageError):
        tokens_of_ids(())
