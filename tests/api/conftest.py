"""The service on a socket of its own, and a client that asks it."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ropewalk.api.app import make_app
from ropewalk.api.server import HttpServer, address_of, listen
from ropewalk.api.settings import ApiSettings

TOKEN = "a token of the tests"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}

# Qwen/Qwen3-8B, config.json.
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4096, "head_dim": 128,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 151936,
    "intermediate_size": 12288, "max_position_embeddings": 40960, "rope_theta": 1000000,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Served:
    """A running service: where it is, and a client without a token."""

    url: str
    client: httpx2.Client
    settings: ApiSettings
    server: HttpServer

    def get(self, path: str, **query: Any) -> Any:
        """The record at a path; the status must be 200."""
        response = self.client.get(path, params=query)
        assert response.status_code == 200, response.text
        return response.json()


@contextlib.contextmanager
def served(settings: ApiSettings) -> Iterator[Served]:
    """Serve in a thread of this process until the block ends."""
    listener = listen(settings.host, 0)
    server = HttpServer(make_app(settings))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    url = address_of(listener)
    try:
        with httpx2.Client(base_url=url, timeout=60) as client:
            yield Served(url, client, settings, server)
    finally:
        server.should_exit = True
        thread.join()


def made_settings(folder: Path, **changes: Any) -> ApiSettings:
    """Settings with one folder of models, in which there is Qwen3-8B's configuration."""
    models = folder / "models"
    (models / "Qwen3-8B").mkdir(parents=True, exist_ok=True)
    (models / "Qwen3-8B" / "config.json").write_text(json.dumps(CONFIG))
    given: dict[str, Any] = {
        "token": TOKEN, "store": folder / "store" / "runs.sqlite3", "models_dirs": (models,), **changes,
    }  # fmt: skip
    return ApiSettings(**given)


@pytest.fixture(scope="session", autouse=True)
def no_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Servers that were left running on this machine are none of these tests' business."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One service for all tests that only read."""
    with served(made_settings(tmp_path_factory.mktemp("service"))) as running:
        yield running
