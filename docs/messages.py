"""``errors/*.md``: a page for each error message that people paste, with what ``ropewalk check`` answers."""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

# Qwen/Qwen3-8B, config.json: what the figures of these pages rest on.
_CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000,
    "rope_scaling": None,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def messages() -> dict[str, dict[str, Any]]:
    """The pages by name; ``also`` is a list of further wordings."""
    return tomllib.loads((Path(__file__).parent / "messages.toml").read_text("utf-8"))


def message_page(name: str) -> str:
    """One page, the message as its title."""
    message = messages()[name]
    also = "".join(f"\n```text\n{wording}\n```\n" for wording in message["also"])
    return "\n".join(
        [
            f"# {message['title']}\n",
            f"Source: {message['source']}.\n",
            *([f"Also worded:\n{also}"] if also else []),
            f"**Cause.** {message['cause']}\n",
            f"**What to look at.** {message['look']}\n",
            "**What answers it.** Nothing is started. The config is that of Qwen3-8B, its weights are"
            " estimated from it:\n",
            f"```sh\n{message['command'].strip()}\n```\n",
            f"```text\n{answer(message['command'])}\n```",
        ]
    )


def answer(command: str) -> str:
    """What a command prints in a folder that holds ``Qwen3-8B/config.json``."""
    from ropewalk.cli.app import run

    out = StringIO()
    with TemporaryDirectory() as folder, chdir(folder), mock.patch.dict(os.environ, {"COLUMNS": "100"}):
        Path("Qwen3-8B").mkdir()
        Path("Qwen3-8B", "config.json").write_text(json.dumps(_CONFIG), "utf-8")
        with redirect_stdout(out):
            run(shlex.split(command.replace("\\\n", " "))[1:])
    return out.getvalue().replace("\t", "  ").strip()
