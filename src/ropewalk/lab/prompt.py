"""A prompt to token ids, by the checkpoint's own ``tokenizer.json``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ropewalk.errors import CheckpointError, EngineMissingError, UsageError
from ropewalk.lab.records import Token

_FILE = "tokenizer.json"


def tokens_of_text(folder: Path, text: str) -> tuple[Token, ...]:
    """The tokens of a text, with those that the tokenizer adds at the start or end.

    Raises :class:`EngineMissingError` without the ``tokenizers`` library, :class:`CheckpointError` without a
    tokenizer that it reads, :class:`UsageError` for a text without tokens.
    """
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise EngineMissingError(
            'a prompt needs the tokenizers library: pip install "ropewalk[lab]", or give --tokens',
            code="extra_missing",
        ) from error
    path = _tokenizer_file(folder)
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise CheckpointError(f"{path} is no tokenizer: {error}", where={"file": str(path)}) from error
    ids = tokenizer.encode(text).ids
    if not ids:
        raise UsageError("the prompt has no tokens", where={"flag": "--prompt"})
    return tuple(Token(number, tokenizer.decode([number], skip_special_tokens=False)) for number in ids)


def tokens_of_ids(ids: Sequence[int]) -> tuple[Token, ...]:
    """Token ids as they were given."""
    if not ids:
        raise UsageError("no token is given", where={"flag": "--tokens"})
    return tuple(Token(number, None) for number in ids)


def _tokenizer_file(folder: Path) -> Path:
    if not (folder / _FILE).is_file():
        raise CheckpointError(
            f"{folder} holds no {_FILE}; give token ids with --tokens",
            code="tokenizer_missing",
            where={"file": str(folder / _FILE)},
        )
    return folder / _FILE
