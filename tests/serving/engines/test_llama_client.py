"""What the client of llama.cpp's server makes of models and answers, where no real server is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk.errors import EngineError
from ropewalk.serving.client import Completion, TokenChoice
from ropewalk.serving.engines.llama_cpp.client import LlamaClient
from ropewalk.serving.process.ports import free_port


@pytest.fixture(scope="module")
def without_template(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2 with the key of its template misspelt."""
    path = tmp_path_factory.mktemp("model") / "bare.gguf"
    path.write_bytes(smollm2.read_bytes().replace(b"tokenizer.chat_template", b"tokenizer.chat_templatX", 1))
    return path


def test_a_model_without_a_template_has_none_whatever_the_server_makes_up(without_template: Path) -> None:
    with LlamaClient("http://127.0.0.1:1", model=without_template) as client:
        assert client.apply_template([{"role": "user", "content": "Hi"}]) is None


class Listing(LlamaClient):
    """Answers with lists of so many tokens as are asked for: token n has the log-probability -n."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__("http://127.0.0.1:1")
        self.vocabulary = vocabulary
        self.asked: list[tuple[int, int]] = []

    def complete(self, prompt_tokens: Sequence[int], *, n_probs: int = 0, **options: Any) -> Completion:
        self.asked.append((len(prompt_tokens), n_probs))
        listed = range(min(n_probs, self.vocabulary))
        return Completion(
            text="",
            tokens=(0,),
            prompt_tokens=len(prompt_tokens),
            cached_tokens=len(prompt_tokens) - 1,
            prefill_seconds=0.5,
            decode_tokens_per_second=None,
            truncated=False,
            finish="length",
            top_logprobs=(tuple(TokenChoice(token, "", -float(token)) for token in listed),),
        )


def test_losses_are_read_from_lists_and_what_is_in_none_is_a_bound() -> None:
    tokens = [1, 2, 99, 100, 4999, 5000, 7]
    with Listing(vocabulary=49_152) as client:
        first, second = client.token_losses(tokens, [(1, 3), (3, 7)])
    assert (first.losses, first.bounds) == ((2.0, 99.0), ())
    assert (second.losses, second.bounds) == ((100.0, 4999.0, 4999.0, 7.0), (2,))
    assert (second.evaluated_from, second.prefill_seconds) == (2, 0.5)
    assert client.asked == [
        (1, 100), (2, 100), (3, 100), (3, 5000), (4, 100), (4, 5000), (5, 100), (5, 5000), (6, 100)
    ]  # fmt: skip


def test_a_server_that_evaluates_other_tokens_is_not_read() -> None:
    class Shifting(Listing):
        def complete(self, prompt_tokens: Sequence[int], **options: Any) -> Completion:
            return replace(super().complete(prompt_tokens, **options), prompt_tokens=3)

    with Shifting(100) as client, pytest.raises(EngineError, match="evaluated 3 tokens of 5"):
        list(client.token_losses(range(9), [(5, 6)]))


def test_nobody_there() -> None:
    with LlamaClient(f"http://127.0.0.1:{free_port()}") as client:
        assert client.healthy() is False
        with pytest.raises(EngineError, match="/props cannot be reached") as caught:
            client.context_len()
    assert caught.value.code == "engine_unreachable"
    assert caught.value.exit_status == 4
