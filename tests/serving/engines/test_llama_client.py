"""What the client of llama.cpp's server makes of models and answers, where no real server is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ropewalk.errors import EngineError
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


def test_nobody_there() -> None:
    with LlamaClient(f"http://127.0.0.1:{free_port()}") as client:
        assert client.healthy() is False
        with pytest.raises(EngineError, match="/props cannot be reached") as caught:
            client.context_len()
    assert caught.value.code == "engine_unreachable"
    assert caught.value.exit_status == 4
