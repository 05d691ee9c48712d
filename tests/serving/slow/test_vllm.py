"""A real vLLM on the CPU: what was planned is what it serves, and what it refuses was known before.

Each start takes half a minute to minutes. ``--enforce-eager`` leaves out a compilation of one minute more;
it changes no memory and no context.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk import core
from ropewalk.engines import EngineBuild
from ropewalk.errors import EngineFailedError, UsageError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.records import Launch, Plan
from ropewalk.serving.engines import launch_of
from ropewalk.serving.engines.vllm.client import VllmClient
from ropewalk.serving.launcher import RunningServer, start
from ropewalk.serving.live import Watch
from ropewalk.serving.preflight import preflight
from ropewalk.serving.process.processes import descendants, is_alive
from ropewalk.serving.verify import Probe, ask_unscaled, verify

pytestmark = pytest.mark.slow

Planned = Callable[..., tuple[Plan, Launch]]


@pytest.fixture(scope="module")
def inspection(smollm2_hf: Path) -> Inspection:
    return core.inspect(smollm2_hf)


@pytest.fixture(scope="module")
def planned(vllm: EngineBuild, inspection: Inspection) -> Planned:
    """A plan and its launch, in eager mode on a free port."""

    def make(**options: Any) -> tuple[Plan, Launch]:
        plan = core.plan(inspection, engine="vllm", **options)
        spec = launch_of(plan, build=vllm, port=0)
        return plan, replace(spec, argv=(*spec.argv, "--enforce-eager"))

    return make


@dataclass(frozen=True, slots=True)
class Served:
    """A server that several tests ask, and how it answers without scaling."""

    plan: Plan
    server: RunningServer
    unscaled: Probe | None


@pytest.fixture(scope="module")
def plain(planned: Planned, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """1,024 tokens as shipped; the last test that asks it kills it."""
    plan, spec = planned(context_len=1024)
    assert "--hf-overrides" not in spec.argv
    with start(spec, log_path=tmp_path_factory.mktemp("plain") / "log") as server:
        processes = (server.pid, *descendants(server.pid))
        yield Served(plan, server, None)
    assert len(processes) >= 3  # server, engine core, worker
    assert not any(map(is_alive, processes))


@pytest.fixture(scope="module")
def scaled(
    planned: Planned, inspection: Inspection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Two sequences of 600 tokens with YaRN 2, and a cache of eight bits where vLLM has it on this processor
    (0.32.0: x86 with AVX-512 or AMX)."""
    cache_type = "fp8" if "avx512f" in Path("/proc/cpuinfo").read_text() else "auto"
    plan, spec = planned(
        context_len=600, arm="yarn:2", allow_unvalidated=True,
        num_sequences=2, cache_type_k=cache_type, cache_type_v=cache_type,
    )  # fmt: skip
    assert "--hf-overrides" in spec.argv
    log_path = tmp_path_factory.mktemp("scaled") / "log"
    unscaled = ask_unscaled(plan, inspection, spec, threads=None, log_path=log_path)
    with start(spec, log_path=log_path) as server:
        yield Served(plan, server, unscaled)


@pytest.mark.parametrize("which", ["plain", "scaled"])
def test_what_was_planned_is_served(which: str, request: pytest.FixtureRequest) -> None:
    served: Served = request.getfixturevalue(which)
    plan, server = served.plan, served.server
    client = server.client
    assert isinstance(client, VllmClient)
    told, kv = client.cache_config(), plan.memory.kv
    assert int(told["num_gpu_blocks"]) == kv.num_blocks
    assert int(told["block_size"]) == kv.block_size
    assert float(told["kv_cache_max_concurrency"]) == kv.max_concurrency
    assert int(told["kv_cache_size_tokens"]) == int((kv.max_concurrency or 0) * plan.context_len)
    cache = server.report.printed("kv_cache")
    assert cache is not None
    assert cache.bytes == kv.reserved_bytes
    assert server.report.context_len == client.context_len() == plan.context_len
    assert server.report.cells == kv.num_blocks * kv.block_size
    assert server.report.model_name == "SmolLM2-135M-Instruct"
    assert server.findings == ()
    tokens = client.tokenize("The capital of France is", add_special=True, parse_special=False)
    answer = client.complete(tokens, max_tokens=3, cache_prompt=False, n_probs=5)
    assert answer.text.strip().startswith("Paris")
    assert (answer.prompt_tokens, answer.cached_tokens, answer.finish) == (len(tokens), 0, "length")
    assert answer.top_logprobs[0][0].text == " Paris"
    prompt = client.apply_template([{"role": "user", "content": "Hi"}])
    assert prompt is not None
    assert prompt.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    moment = Watch(server).look()
    assert moment.load is not None
    assert (moment.state, moment.load.running, moment.load.kv_share) == ("idle", 0, 0.0)
    assert moment.load.generated_tokens == 4
    (paris,) = client.tokenize(" Paris", add_special=False, parse_special=False)
    *_, last = client.token_losses([*tokens, paris], [(1, len(tokens)), (len(tokens), len(tokens) + 1)])
    assert last.losses == pytest.approx((-answer.top_logprobs[0][0].logprob,), abs=0.02)


def test_scaling_is_in_effect_and_the_context_holds(scaled: Served) -> None:
    seen = verify(scaled.server, scaled.plan, unscaled=scaled.unscaled)
    assert seen.findings == ()
    assert seen.filled_tokens == 596
    assert seen.rope_difference is not None
    assert seen.rope_difference > 0.2


def test_a_worker_that_the_system_kills_ends_the_server(plain: Served) -> None:
    server = plain.server
    names = {Path(f"/proc/{pid}/comm").read_text().strip(): pid for pid in descendants(server.pid)}
    os.kill(names["VLLM::Worker"], signal.SIGKILL)
    assert server.wait(120)
    with pytest.raises(EngineFailedError, match=r"while it served: Worker proc .* died unexpectedly"):
        server.require_alive()


def test_too_small_a_cache_is_refused_in_the_engines_own_words(planned: Planned, tmp_path: Path) -> None:
    _, spec = planned(context_len=8192)
    argv = list(spec.argv)
    argv[argv.index("--kv-cache-memory-bytes") + 1] = "100000000"
    with pytest.raises(EngineFailedError) as caught:
        start(replace(spec, argv=tuple(argv)), log_path=tmp_path / "log")
    reason = str(caught.value.where["reason"])
    assert reason.startswith("ValueError: To serve at least one request with the model's max seq len (8192)")
    assert "estimated maximum model length is 4096" in reason
    assert "while it started" in caught.value.message


def test_more_than_the_machine_has_is_known_before_and_refused(
    planned: Planned, inspection: Inspection, tmp_path: Path
) -> None:
    plan, spec = planned(context_len=1 << 22, arm="yarn:512", allow_unvalidated=True)
    memory = next(item for item in preflight(plan, spec, inspection) if item.name == "memory")
    assert memory.ok is False
    with pytest.raises(EngineFailedError) as caught:
        start(spec, log_path=tmp_path / "log")
    assert str(caught.value.where["reason"]).startswith("ValueError: Available memory on node 0 ")


def test_ranks_that_cannot_be_are_known_before(planned: Planned, inspection: Inspection) -> None:
    with pytest.raises(UsageError, match="9 attention heads cannot be divided by tensor parallel 2"):
        planned(context_len=1024, tensor_parallel=2)
    plan, spec = planned(context_len=1024, tensor_parallel=3)
    devices = next(item for item in preflight(plan, spec, inspection) if item.name == "devices")
    assert (devices.ok, devices.message) == (
        False,
        "3 ranks, 1 NUMA node; --threads N binds none, and gives each N threads",
    )


def test_flags_are_held_against_this_builds_own_help(planned: Planned, inspection: Inspection) -> None:
    plan, spec = planned(context_len=1024)
    flags = next(item for item in preflight(plan, spec, inspection) if item.name == "flags")
    assert flags.ok is True
    old = replace(spec, argv=(*spec.argv, "--rope-scaling", "{}"))
    flags = next(item for item in preflight(plan, old, inspection) if item.name == "flags")
    assert (flags.ok, flags.message) == (False, "vllm 0.32.0 does not know --rope-scaling")
