"""The real embedded engine: started from a plan, failing, stopped."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ropewalk import jsonio
from ropewalk.errors import EngineError, EngineFailedError
from ropewalk.planner.records import Launch, RopeDecision
from ropewalk.serving.client import PromptTooLongError
from ropewalk.serving.launcher import start
from ropewalk.serving.process.processes import descendants, is_alive

pytestmark = pytest.mark.engine

SpecOf = Callable[..., Launch]


def with_model(spec: Launch, model: Path) -> Launch:
    return replace(spec, model=str(model), argv=("-m", str(model), *spec.argv[2:]))


def test_it_serves_what_was_planned_and_leaves_nothing(smollm2_spec: SpecOf, tmp_path: Path) -> None:
    with start(smollm2_spec(1000), log_path=tmp_path / "log") as server:
        assert server.report.context_len == 1024
        assert server.report.num_sequences == 1
        assert server.report.cells == 1024
        assert server.report.model_name == "SmolLM2-135M-Instruct.Q4_1"
        cache = server.report.printed("kv_cache")
        assert cache is not None
        assert cache.bytes == 1024 * 30 * 3 * 64 * 2 * 2  # cells x layers x heads x dim x (K, V) x f16
        assert is_alive(server.pid)
    assert not is_alive(server.pid)
    assert "memory breakdown" in (tmp_path / "log").read_text()


def test_the_client_asks_a_real_server(smollm2_spec: SpecOf, tmp_path: Path) -> None:
    with start(smollm2_spec(512), log_path=tmp_path / "log") as server:
        client = server.client
        tokens = client.tokenize("The capital of France is", add_special=False, parse_special=False)
        assert tokens == [504, 3575, 282, 4649, 314]
        assert client.detokenize(tokens) == "The capital of France is"
        assert client.apply_template([{"role": "user", "content": "Hi"}]) is not None
        first = client.complete(tokens, max_tokens=2, cache_prompt=True, n_probs=3)
        again = client.complete(tokens, max_tokens=2, cache_prompt=True)
        fresh = client.complete(tokens, max_tokens=2, cache_prompt=False)
        assert first.text == again.text == fresh.text == " Paris."
        assert first.finish == "length"
        assert (first.prompt_tokens, first.cached_tokens) == (5, 0)
        assert (again.prompt_tokens, again.cached_tokens) == (5, 4)
        assert (fresh.prompt_tokens, fresh.cached_tokens) == (5, 0)
        assert [len(row) for row in first.top_logprobs] == [3, 3]
        assert first.top_logprobs[0][0].token == first.tokens[0]
        assert first.top_logprobs[0][0].logprob > first.top_logprobs[0][1].logprob
        assert client.complete(tokens, max_tokens=9, cache_prompt=True, stop=["."]).finish == "stop"
        (read,) = client.token_losses([*tokens, first.tokens[0]], [(3, 6)])
        assert read.losses[-1] == pytest.approx(-first.top_logprobs[0][0].logprob, abs=1e-4)
        assert (len(read.losses), read.bounds) == (3, ())
        with pytest.raises(PromptTooLongError) as caught:
            client.complete([504] * 600, max_tokens=1, cache_prompt=False)
        assert (caught.value.prompt_tokens, caught.value.context_len) == (600, 512)


def test_slots_divide_the_cache_as_planned(smollm2_spec: SpecOf, tmp_path: Path) -> None:
    with start(smollm2_spec(300, num_sequences=3), log_path=tmp_path / "log") as server:
        assert (server.report.context_len, server.report.num_sequences) == (512, 3)
        assert server.report.cells == 512


def test_slots_share_a_cache_and_keep_to_their_planned_length(smollm2_spec: SpecOf, tmp_path: Path) -> None:
    spec = smollm2_spec(300, num_sequences=2, kv_unified=True)
    with start(spec, log_path=tmp_path / "log") as server:
        assert (server.report.context_len, server.report.num_sequences) == (300, 2)
        assert server.report.cells == 768


def test_yarn_raises_the_context_that_is_served(smollm2_spec: SpecOf, tmp_path: Path) -> None:
    flags = ("--rope-scaling", "yarn", "--rope-scale", "2", "--yarn-orig-ctx", "8192")
    rope = RopeDecision("scale", "yarn", 2.0, 8192, 1.0, "", "", llama_server_flags=flags)
    spec = smollm2_spec(16384, rope=rope, cache_type_k="q4_0", cache_type_v="q4_0")
    with start(spec, log_path=tmp_path / "log") as server:
        assert server.report.context_len == 16384


def test_a_context_beyond_the_declared_one_is_refused(smollm2_spec: SpecOf, tmp_path: Path) -> None:
    spec = smollm2_spec(8448, cache_type_k="q4_0", cache_type_v="q4_0")
    with pytest.raises(EngineError, match="takes 8192 tokens per sequence; the plan is for 8448") as caught:
        start(spec, log_path=tmp_path / "log")
    assert caught.value.code == "slot_context_capped"


def test_the_unscaled_arm_lifts_the_limit_in_a_copy(
    smollm2_spec: SpecOf, smollm2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spec = smollm2_spec(8448, override_context_len=8448, cache_type_k="q4_0", cache_type_v="q4_0")
    assert "llama.context_length=int:8448" in spec.argv
    before = smollm2.stat().st_mtime_ns
    with start(spec, log_path=tmp_path / "log") as server:
        assert server.report.context_len == 8448
        assert list(tmp_path.glob("ropewalk-*")) == []
    assert smollm2.stat().st_mtime_ns == before


def test_a_missing_model(smollm2_spec: SpecOf, tmp_path: Path) -> None:
    with pytest.raises(EngineFailedError, match=r"failed to open GGUF file .*none.gguf.* \(No such file"):
        start(with_model(smollm2_spec(), tmp_path / "none.gguf"), log_path=tmp_path / "log")


def test_a_truncated_model(smollm2_spec: SpecOf, smollm2: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    with smollm2.open("rb") as whole:
        cut.write_bytes(whole.read(50_000_000))
    with pytest.raises(
        EngineFailedError, match="not within the file bounds, model is corrupted or incomplete"
    ):
        start(with_model(smollm2_spec(), cut), log_path=tmp_path / "log")


def test_an_unknown_flag(smollm2_spec: SpecOf, tmp_path: Path) -> None:
    spec = smollm2_spec()
    with pytest.raises(EngineFailedError, match="error: invalid argument: --no-such-flag"):
        start(replace(spec, argv=(*spec.argv, "--no-such-flag")), log_path=tmp_path / "log")


def test_the_port_of_another_server_of_the_same_engine(smollm2_spec: SpecOf, tmp_path: Path) -> None:
    with start(smollm2_spec(), log_path=tmp_path / "one") as server:
        with pytest.raises(EngineError) as caught:
            start(replace(smollm2_spec(), port=server.launch.port), log_path=tmp_path / "two")
        assert caught.value.code == "port_in_use"
        server.require_alive()


def test_killed_while_loading(smollm2_spec: SpecOf, tmp_path: Path) -> None:
    def kill(line: str) -> None:
        if "loading model" in line:
            os.kill(pid_of_engine(), signal.SIGKILL)

    with pytest.raises(EngineFailedError, match="ended by SIGKILL while it started"):
        start(smollm2_spec(), log_path=tmp_path / "log", on_log=kill)


def test_killed_while_serving(smollm2_spec: SpecOf, tmp_path: Path) -> None:
    with start(smollm2_spec(), log_path=tmp_path / "log") as server:
        os.kill(server.pid, signal.SIGKILL)
        assert server.wait(10)
        with pytest.raises(EngineFailedError, match="ended by SIGKILL while it served"):
            server.require_alive()


def test_killed_with_its_owner(smollm2_spec: SpecOf, tmp_path: Path) -> None:
    code = """
import signal, sys
from pathlib import Path
from ropewalk import jsonio
from ropewalk.serving.launcher import start
from ropewalk.planner.records import Launch
server = start(jsonio.loads(Launch, sys.argv[1]), log_path=Path(sys.argv[2]))
print(server.pid, flush=True)
signal.pause()
"""
    argv = [sys.executable, "-c", code, jsonio.dumps(smollm2_spec()), str(tmp_path / "log")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        engine = int(owner.stdout.readline())
        with open_pid(engine) as handle:
            owner.kill()
            assert select.select([handle], [], [], 10)[0]


@contextmanager
def open_pid(pid: int) -> Iterator[int]:
    """A descriptor that becomes readable when the process ends."""
    if not hasattr(os, "pidfd_open"):
        pytest.skip("no pidfd")
    handle = os.pidfd_open(pid)
    yield handle
    os.close(handle)


def pid_of_engine() -> int:
    """The engine that this test started: the deepest of its descendants."""
    return descendants(os.getpid())[-1]
