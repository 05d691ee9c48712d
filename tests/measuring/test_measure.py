"""The whole loop against servers in memory, each with one planted fault."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from tests.measuring.fake_llm import FakeServer
from tests.planner.models import deepseek_v3, smollm2

from ropewalk import jsonio
from ropewalk.engines import EngineBuild
from ropewalk.errors import EngineFailedError, UsageError
from ropewalk.findings import Finding
from ropewalk.inspector.records import CheckpointFile, Fact, Inspection
from ropewalk.measuring import events
from ropewalk.measuring.measure import MeasureSettings, run_measurement
from ropewalk.measuring.records import ArmResult, Measurement, Outcome
from ropewalk.measuring.store import RunStore
from ropewalk.planner.records import Launch
from ropewalk.serving.server_report import ServerReport

BUILD = EngineBuild("llama-server", "llama-server", "b11434", "llama-server")
ARMS = ("shipped", "yarn:1.5", "unscaled")
SMALL = MeasureSettings(lengths=(400, 700))


def rotary_smollm2() -> Inspection:
    """SmolLM2 with its rotation as its GGUF states it, so that a scaling can be planned."""
    model = smollm2()
    rope = {"rope_type": "default", "rope_theta": 100_000.0}
    facts = {"rope_parameters": Fact(rope, "gguf"), "position_embedding": Fact("rope", "derived")}
    return replace(model, facts={**model.facts, **facts})


@dataclass
class FakeRunning:
    """A started server; ``pid`` is no process, so that no memory is seen."""

    client: FakeServer
    report: ServerReport
    pid: int = -1
    ready_seconds: float = 0.5
    findings: tuple[Finding, ...] = ()
    stopped: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopped = True

    def require_alive(self) -> None:
        if self.client.is_dead:
            raise EngineFailedError("llama-server ended with signal 9 while it served: out of memory")


@dataclass
class Bench:
    """Starts one fake server per arm, in order; ``faults`` are the fields of the n-th one."""

    store: RunStore
    model: Path
    faults: list[dict[str, Any]] = field(default_factory=list)
    servers: list[FakeRunning] = field(default_factory=list)
    heard: list[events.Event] = field(default_factory=list)
    vocabulary: dict[str, Any] = field(default_factory=lambda: {"words": [], "ids": {}})

    def start(self, spec: Launch, log_path: Path) -> FakeRunning:
        fault = self.faults[len(self.servers)] if len(self.servers) < len(self.faults) else {}
        client = FakeServer(**{"context": spec.served_context_len, **self.vocabulary, **fault})
        report = ServerReport("fake", client.context, 1)
        self.servers.append(FakeRunning(client, report))
        return self.servers[-1]

    def measure(
        self,
        settings: MeasureSettings = SMALL,
        *,
        arms: tuple[str, ...] = ARMS,
        target: int = 12288,
        **options: Any,
    ) -> Measurement:
        return run_measurement(
            options.pop("inspection", rotary_smollm2()),
            model=str(self.model),
            build=options.pop("build", BUILD),
            context_len=target,
            arms=arms,
            settings=settings,
            store=self.store,
            on_event=options.pop("on_event", self.heard.append),
            start=self.start,
            **options,
        )

    def asked(self, arm: int) -> int:
        """Prompts that the n-th server was asked, the filling of one batch not counted."""
        return len(self.servers[arm].client.asked) - 1


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    model = tmp_path / "model.gguf"
    model.write_bytes(gguf_of({"general.architecture": "llama"}))
    with RunStore(tmp_path / "runs.sqlite3") as store:
        yield Bench(store, model)


def gguf_of(texts: dict[str, str]) -> bytes:
    """A GGUF of version 3 with these string keys and no tensors."""

    def packed(text: str) -> bytes:
        return struct.pack("<Q", len(text)) + text.encode()

    pairs = b"".join(packed(key) + struct.pack("<I", 8) + packed(value) for key, value in texts.items())
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(texts)) + pairs


def outcomes(run: Measurement, arm: str, length: int) -> list[Outcome]:
    found = next(one for one in run.arms if one.arm == arm)
    return [outcome for cell in found.cells if cell.length == length for outcome in cell.outcomes]  # type: ignore[misc]


def test_a_model_that_recalls_hits_everywhere(bench: Bench) -> None:
    run = bench.measure()
    assert run.status == "finished"
    assert [arm.label for arm in run.arms] == ["as shipped", "YaRN 1.5", "unscaled"]
    assert [arm.context_reported for arm in run.arms] == [8192, 12288, 12288]
    assert all(outcomes(run, arm, 700) == ["hit"] * 5 for arm in ARMS)
    assert [outcomes(run, arm, 400) for arm in ARMS] == [["hit"] * 5, ["hit"] * 5, []]
    assert [point.length for point in run.arms[0].speed] == [400, 700]
    assert [(one.length, one.prefill.linear_flops > 0) for one in run.arms[0].work] == [
        (400, True),
        (700, True),
    ]
    assert run.arms[0].speed_fit is None  # two lengths are no curve
    assert all(server.stopped for server in bench.servers)


def test_any_engine_is_measured_alike(bench: Bench) -> None:
    vllm = EngineBuild("vllm", "vllm", "0.33.0", "vllm")
    run = bench.measure(replace(SMALL, lengths=(400,)), arms=("shipped", "yarn:1.5"), build=vllm)
    assert [outcomes(run, arm.arm, 400) for arm in run.arms] == [["hit"] * 5] * 2
    assert run.arms[0].launch is not None
    assert run.arms[0].launch.command.startswith("vllm serve")


def test_arms_are_asked_the_very_same_prompts(bench: Bench) -> None:
    bench.measure()
    hashes = [
        [
            trial.prompt_sha256
            for trial in bench.store.trials(bench.store.runs()[0].run_id)
            if trial.arm == arm
        ]
        for arm in ARMS
    ]
    assert hashes[0] == hashes[1]
    assert hashes[2] == hashes[0][5:]
    assert len(set(hashes[0])) == 10


def test_without_scaling_only_what_lies_beyond_the_arm_as_shipped_is_asked(bench: Bench) -> None:
    run = bench.measure(replace(SMALL, lengths=(400, 8192, 12000)))
    assert [sorted({cell.length for cell in arm.cells}) for arm in run.arms] == [
        [400, 8192, 12000],  # the last two refused: they leave no room for an answer
        [400, 8192, 12000],
        [8192, 12000],
    ]
    alone = bench.measure(replace(SMALL, lengths=(400, 700)), arms=("unscaled",))
    assert {cell.length for cell in alone.arms[0].cells} == {400, 700}


def test_a_length_beyond_the_context_is_asked_once_and_refused(bench: Bench) -> None:
    run = bench.measure(replace(SMALL, lengths=(400, 9000), trials=2), arms=("shipped", "yarn:1.5"))
    assert outcomes(run, "shipped", 9000) == ["refused"] * 5
    details = {cell.outcomes["refused"] for cell in run.arms[0].cells if cell.length == 9000}
    assert details == {1}  # the second round is not asked either
    assert bench.asked(0) == 10 + 1
    assert run.comparison is not None
    assert run.comparison.recommended == "yarn:1.5"
    assert "no other arm serves this length" in run.comparison.verdict


def test_what_the_window_forgets_is_missed_and_the_verdict_says_where(bench: Bench) -> None:
    bench.faults = [{}, {}, {"window": 300}]
    run = bench.measure()
    assert outcomes(run, "unscaled", 700) == ["miss", "miss", "miss", "hit", "hit"]
    assert run.comparison is not None
    pair = next(pair for pair in run.comparison.pairs if pair.length == 700 and pair.other == "unscaled")
    assert (pair.pairs, pair.only_arm, pair.only_other, pair.p_value) == (5, 3, 0, 0.25)


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ({"truncates": True, "context": 512}, "invalid"),
        ({"miscounts": 4}, "invalid"),
        ({"shifts": True, "context": 706}, "invalid"),
        ({"lists_all": True}, "wrong_needle"),
        ({"babbles": True}, "miss"),
        ({"answer": " 12"}, "miss"),
        ({"answer": "<think>The number must be somewhere in"}, "lost_to_reasoning"),
    ],
)
def test_planted_faults_are_told_apart(bench: Bench, fault: dict[str, Any], outcome: Outcome) -> None:
    bench.faults = [fault]
    run = bench.measure(replace(SMALL, lengths=(700,)), arms=("shipped",))
    assert outcomes(run, "shipped", 700) == [outcome] * 5
    judged = outcome in ("miss", "wrong_needle")
    assert all((cell.low is not None) == judged for cell in run.arms[0].cells)
    assert run.arms[0].effective_context_absolute is None


def test_a_server_without_a_template_is_asked_in_plain_text_and_it_is_told(bench: Bench) -> None:
    bench.faults = [{"template": False}]
    (arm,) = bench.measure(replace(SMALL, form="chat"), arms=("shipped",)).arms
    assert [one.where["form"] for one in arm.findings if one.code == "asked_in_plain_text"] == ["completion"]


@pytest.mark.parametrize("thinks", ["switch", "begins"])
def test_thinking_is_switched_off_and_said_to_be(bench: Bench, thinks: str) -> None:
    bench.faults = [{"thinks": thinks}]
    run = bench.measure(replace(SMALL, form="chat"), arms=("shipped",))
    assert outcomes(run, "shipped", 700) == ["hit"] * 5
    assert "thinking_off" in [finding.code for finding in run.arms[0].findings]
    assert "reasoning_not_disabled" not in [finding.code for finding in run.findings]


def test_thoughts_that_come_unasked_are_told(bench: Bench) -> None:
    bench.faults = [{"thinks": "always"}]
    run = bench.measure(replace(SMALL, form="chat"), arms=("shipped",))
    assert outcomes(run, "shipped", 700) == ["hit"] * 5  # what follows the thought
    (told,) = [finding for finding in run.findings if finding.code == "reasoning_not_disabled"]
    assert (told.severity, told.where) == ("warning", {"arm": "shipped", "answers": 10, "of": 10})


def test_a_server_that_dies_ends_its_arm_only(bench: Bench) -> None:
    bench.faults = [{"dies_after": 4}]
    run = bench.measure(arms=("shipped", "yarn:1.5"))
    assert run.status == "finished"
    failed = [finding for finding in run.arms[0].findings if finding.code == "arm_failed"]
    assert len(failed) == 1
    assert "out of memory" in failed[0].message
    assert sum(cell.trials for cell in run.arms[0].cells) == 3  # kept; the fatal one is not a trial
    assert outcomes(run, "yarn:1.5", 700) == ["hit"] * 5
    last = [event.progress for event in bench.heard if isinstance(event, events.TrialEnded)][-1]
    assert last.done_tokens == last.total_tokens  # what the dead arm leaves open is not waited for


def test_a_plan_that_refuses_is_a_finding_of_its_arm(bench: Bench) -> None:
    run = bench.measure(arms=("yarn:2",), inspection=deepseek_v3(), target=65536)
    assert run.status == "failed"
    assert [finding.code for finding in run.arms[0].findings if finding.severity == "error"][
        -1
    ] == "arm_refused"
    assert bench.servers == []


def test_ctrl_c_keeps_what_was_seen_and_resume_completes_it(bench: Bench) -> None:
    whole = bench.measure(arms=("shipped", "yarn:1.5"))
    bench.servers.clear()
    interrupted = bench.measure(arms=("shipped", "yarn:1.5"), on_event=_stop_after(13))
    assert interrupted.status == "interrupted"
    assert sum(cell.trials for arm in interrupted.arms for cell in arm.cells) == 13
    assert all(server.stopped for server in bench.servers)
    bench.servers.clear()
    resumed = bench.measure(
        MeasureSettings(seed=99),
        arms=("unscaled",),
        target=999,
        resume=interrupted.run_id[:13] + interrupted.run_id[13:],
    )
    assert (resumed.run_id, resumed.status) == (interrupted.run_id, "finished")
    assert len(bench.servers) == 1  # shipped was complete
    assert bench.asked(0) == 7
    assert _seen(resumed.arms) == _seen(whole.arms)
    assert resumed.comparison == whole.comparison


def test_resuming_with_other_weights_or_engine_is_refused(bench: Bench) -> None:
    run = bench.measure(on_event=_stop_after(3))
    model = rotary_smollm2()
    other = replace(model, checkpoint=replace(model.checkpoint, files=(CheckpointFile("other.gguf", 5),)))
    with pytest.raises(UsageError, match="other weights"):
        bench.measure(resume=run.run_id, inspection=other)
    with pytest.raises(UsageError, match="cannot go on"):
        bench.measure(resume=run.run_id, build=replace(BUILD, version="b99999"))
    assert bench.store.load(run.run_id).status == "failed"


def test_a_run_at_work_is_not_gone_on_with(bench: Bench) -> None:
    run = bench.measure(arms=("shipped",), on_event=_stop_after(3))
    bench.store.update(replace(bench.store.frame(run.run_id), status="running"))  # by this process
    with pytest.raises(UsageError, match="is being measured by process") as caught:
        bench.measure(resume=run.run_id)
    assert caught.value.code == "run_active"


def test_arms_that_serve_alike_are_measured_once(bench: Bench) -> None:
    run = bench.measure(arms=("shipped", "auto"), target=4096)
    assert [arm.arm for arm in run.arms] == ["shipped"]
    assert "same_configuration" in [finding.code for finding in run.findings]


def test_cache_types_are_arms(bench: Bench) -> None:
    arms = ("shipped", "shipped+q8_0", "yarn:1.5", "yarn:1.5+q4_0", "unscaled+q8_0")
    bench.faults = [{}, {"window": 300}]
    run = bench.measure(replace(SMALL, lengths=(400, 8192)), arms=arms)
    assert [arm.label for arm in run.arms] == [
        *("as shipped", "as shipped, q8_0 cache", "YaRN 1.5", "YaRN 1.5, q4_0 cache"),
        "unscaled, q8_0 cache",
    ]
    flags = [arm.launch.argv for arm in run.arms if arm.launch]
    types = [argv[argv.index("-ctv") + 1] for argv in flags]
    assert types == ["f16", "q8_0", "f16", "q4_0", "q8_0"]
    assert {cell.length for cell in run.arms[4].cells} == {8192}  # within 8,192 it computes as shipped+q8_0
    told = [finding.where["arm"] for finding in run.findings if finding.code == "short_text_undecided"]
    assert told == ["shipped+q8_0", "yarn:1.5", "yarn:1.5+q4_0"]
    with pytest.raises(UsageError, match="q9"):
        bench.measure(arms=("shipped+q9",))


@pytest.mark.parametrize(("fault", "rounds"), [({}, 3), ({"babbles": True}, 1)])
def test_the_sequential_test_saves_trials(bench: Bench, fault: dict[str, Any], rounds: int) -> None:
    bench.faults = [fault]
    run = bench.measure(replace(SMALL, lengths=(400,), trials=12), arms=("shipped",))
    assert {cell.trials for cell in run.arms[0].cells} == {rounds}


def test_enough_hits_support_an_effective_context(bench: Bench) -> None:
    run = bench.measure(replace(SMALL, trials=3), arms=("shipped",))
    assert run.arms[0].effective_context_absolute == 700
    assert run.arms[0].effective_context_relative == 700


def test_equal_probabilities_betray_a_scaling_that_does_nothing(bench: Bench) -> None:
    bench.faults = [{}, {"logprob": -0.5}, {}]
    codes = [finding.code for finding in bench.measure().findings]
    assert "rope_scaling_inactive" not in codes
    bench.servers.clear()
    bench.faults = []
    findings = [finding for finding in bench.measure().findings if finding.code == "rope_scaling_inactive"]
    assert [finding.where["arms"] for finding in findings] == [
        ["shipped", "yarn:1.5"],
        ["yarn:1.5", "unscaled"],
    ]


def test_a_task_without_depth_is_asked_once_a_haystack(bench: Bench) -> None:
    settings = MeasureSettings(tasks=("common_words", "niah_single"), lengths=(900,))
    run = bench.measure(settings, arms=("shipped",))
    assert [(cell.task, cell.depth) for cell in run.arms[0].cells][:2] == [
        ("common_words", 0.0),
        ("niah_single", 0.1),
    ]


def test_progress_only_grows_and_ends_at_its_total(bench: Bench) -> None:
    bench.measure()
    progress = [event.progress for event in bench.heard if isinstance(event, events.TrialEnded)]
    done = [step.done_tokens for step in progress]
    assert done == sorted(done)
    assert {step.total_tokens for step in progress} == {done[-1]}
    kinds = [type(event).__name__ for event in bench.heard]
    assert kinds[:5] == ["RunStarted", "GridChosen", "ArmStarted", "ArmReady", "Estimated"]
    (estimate, *_) = [event.progress for event in bench.heard if isinstance(event, events.Estimated)]
    assert (estimate.done_tokens, estimate.total_tokens) == (0, done[-1])
    assert estimate.seconds_left is not None  # known before the first question
    assert kinds[-2:] == ["ArmEnded", "RunEnded"]


def test_a_time_budget_fixes_the_grid_before_the_first_question(bench: Bench) -> None:
    run = bench.measure(MeasureSettings(minutes=1e-9), arms=("shipped", "yarn:1.5"))
    chosen = next(event for event in bench.heard if isinstance(event, events.GridChosen))
    assert chosen.lengths == (2048,)
    assert run.settings["lengths"] == [2048]
    assert run.settings["minutes"] is None
    assert any(finding.code == "grid_chosen" and finding.severity == "warning" for finding in run.findings)


def test_a_time_budget_counts_what_the_unscaled_arm_is_asked_and_no_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three arms at 400, 700 and 12,000 tokens: the unscaled one is asked at the last alone."""
    asked: list[list[int]] = []
    monkeypatch.setattr("ropewalk.measuring.arm_run.within_minutes", _spy(asked))
    bench.measure(replace(SMALL, lengths=(400, 700, 12000), minutes=1.0))
    assert asked == [[400, 700, 400, 700, 12000, 12000]]


def test_the_record_is_the_same_after_json(bench: Bench) -> None:
    run = bench.measure()
    assert jsonio.loads(Measurement, jsonio.dumps(run)) == run
    assert bench.store.load(run.run_id) == run


@pytest.mark.parametrize(
    "wrong",
    [
        {"tasks": ()},
        {"tasks": ("recite",)},
        {"lengths": ()},
        {"depths": (0.5, 1.5)},
        {"depths": (0.5, 0.5)},
        {"trials": 0},
        {"minutes": 0},
    ],
)
def test_settings_that_cannot_be_measured_start_nothing(bench: Bench, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        bench.measure(MeasureSettings(**wrong))
    assert bench.store.runs() == ()


def test_no_arm_is_no_run(bench: Bench) -> None:
    with pytest.raises(UsageError, match="no arm"):
        bench.measure(arms=())
    assert bench.store.runs() == ()


def _spy(asked: list[list[int]]) -> Any:
    def choose(settings: MeasureSettings, of: Any, pace: Any, *, reading: Any) -> MeasureSettings:
        asked.append(list(of(settings.lengths)))
        return replace(settings, minutes=None)

    return choose


def _stop_after(count: int) -> Any:
    ended: list[events.Event] = []

    def hear(event: events.Event) -> None:
        if isinstance(event, events.TrialEnded):
            ended.append(event)
            if len(ended) == count:
                raise KeyboardInterrupt

    return hear


def _seen(arms: tuple[ArmResult, ...]) -> list[Any]:
    return [(arm.arm, arm.cells, arm.effective_context_relative) for arm in arms]


def test_a_doubled_start_token_is_said(bench: Bench) -> None:
    bench.faults = [{"writes_begin": True}]
    run = bench.measure(arms=("shipped",))
    told = [finding.severity for finding in run.arms[0].findings if finding.code == "doubled_bos"]
    assert told == ["warning"]
    assert outcomes(run, "shipped", 700) == ["hit"] * 5


def test_a_late_needle_of_a_short_prompt_is_told_to_begin_earlier(bench: Bench) -> None:
    run = bench.measure(MeasureSettings(lengths=(300,), depths=(0.1, 0.95)), arms=("shipped",))
    (moved,) = [finding for finding in run.findings if finding.code == "needle_moved"]
    assert moved.where["depth"] == 0.95
    assert moved.where["begins_at"] < 0.9
