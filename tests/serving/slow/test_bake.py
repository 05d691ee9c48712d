"""A baked file served by the embedded engine, beside the original with rope flags."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from ropewalk import core
from ropewalk.engines import EngineBuild
from ropewalk.serving.engines import launch_of
from ropewalk.serving.launcher import start

pytestmark = pytest.mark.slow
PROMPT = "The lighthouse keeper wrote in his journal that " * 40


def answered(model: Path, build: EngineBuild, log_path: Path) -> tuple[int, list[Any], tuple[str, ...]]:
    """Tokens of the slot, the most likely next tokens with their log probabilities, and the arguments."""
    plan = core.plan(model, context_len=12_288, engine="llama-server", allow_unvalidated=True)
    spec = launch_of(plan, build=build, port=0, threads=2)
    body = {"prompt": PROMPT, "n_predict": 1, "n_probs": 5, "temperature": 0}
    with start(spec, log_path=log_path) as server:
        asked = urllib.request.Request(
            f"{server.base_url}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(asked, timeout=300) as reply:
            answer = json.load(reply)
        with urllib.request.urlopen(f"{server.base_url}/props", timeout=60) as reply:
            props = json.load(reply)
    likely = answer["completion_probabilities"][0]["top_logprobs"]
    slot = props["default_generation_settings"]["n_ctx"]
    return slot, [(one["token"], one["logprob"]) for one in likely], spec.argv


@pytest.mark.engine
def test_a_baked_file_answers_as_the_flags_do(smollm2: Path, embedded: EngineBuild, tmp_path: Path) -> None:
    """12,288 tokens in the slot, and the same log probabilities to the last digit (b11549)."""
    copy = tmp_path / "baked.gguf"
    core.bake(smollm2, copy, context_len=12_288)
    slot, likely, argv = answered(copy, embedded, tmp_path / "baked.log")
    flagged = answered(smollm2, embedded, tmp_path / "flags.log")
    assert "--rope-scaling" not in argv
    assert "--rope-scaling" in flagged[2]
    assert (slot, likely) == flagged[:2]
    assert slot == 12_288
