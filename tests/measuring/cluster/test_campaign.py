"""Runs whose arms are measured as tasks: the same trials as at home, whatever happens to the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.measuring.cluster.doubles import Cluster, Servers
from tests.measuring.test_measure import ARMS, BUILD, SMALL, gguf_of, rotary_smollm2
from tests.planner.models import deepseek_v3

from ropewalk.errors import EngineFailedError, UsageError
from ropewalk.inspector.records import CheckpointFile, Inspection
from ropewalk.measuring import events
from ropewalk.measuring.cluster import node
from ropewalk.measuring.cluster.campaign import node_findings, planned_build, run_campaign
from ropewalk.measuring.cluster.settings import CampaignSettings, Needs
from ropewalk.measuring.measure import MeasureSettings, run_measurement
from ropewalk.measuring.records import ArmResult, Measurement, Trial
from ropewalk.measuring.store import RunStore

TWO = ("shipped", "yarn:1.5")
CLUSTER = CampaignSettings("ray://head:10001", whole_nodes=True)


@dataclass
class Driver:
    """The machine that hands out the tasks; ``on_node`` is what a node finds under the path."""

    store: RunStore
    model: Path
    cluster: Cluster = field(default_factory=Cluster)
    inspection: Inspection = field(default_factory=rotary_smollm2)
    on_node: Inspection = field(default_factory=rotary_smollm2)
    heard: list[events.Event] = field(default_factory=list)

    def run(
        self,
        settings: MeasureSettings = SMALL,
        *,
        arms: tuple[str, ...] = TWO,
        campaign: CampaignSettings = CLUSTER,
        target: int = 12288,
        **options: Any,
    ) -> Measurement:
        return run_campaign(
            self.inspection,
            model=str(self.model),
            build=BUILD,
            context_len=target,
            arms=arms,
            settings=settings,
            campaign=campaign,
            store=self.store,
            on_event=self.heard.append,
            open_backend=lambda settings, folder: self.cluster,
            **options,
        )

    def at_home(self, *, arms: tuple[str, ...] = TWO, **options: Any) -> Measurement:
        return run_measurement(
            self.inspection,
            model=str(self.model),
            build=BUILD,
            context_len=12288,
            arms=arms,
            settings=SMALL,
            store=self.store,
            start=Servers().start,
            **options,
        )

    def trials(self, run: Measurement, arm: str) -> list[Trial]:
        return [trial for trial in self.store.trials(run.run_id) if trial.arm == arm]


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    model = tmp_path / "model.gguf"
    model.write_bytes(gguf_of({"general.architecture": "llama"}))
    with RunStore(tmp_path / "runs.sqlite3") as store:
        driver = Driver(store, model)
        monkeypatch.setattr(node, "open_checkpoint", lambda source: None)
        monkeypatch.setattr(node, "inspect_checkpoint", lambda checkpoint: driver.on_node)
        monkeypatch.setattr(node, "pick_engine", lambda engine, path: BUILD)
        yield driver


def codes(arm: ArmResult) -> list[str]:
    return [finding.code for finding in arm.findings if finding.severity == "error"]


def test_tasks_ask_what_is_asked_at_home(driver: Driver) -> None:
    there, here = driver.run(arms=ARMS), driver.at_home(arms=ARMS)
    for arm in ARMS:
        assert driver.trials(there, arm) == driver.trials(here, arm)
    assert there.comparison == here.comparison
    assert [replace(arm, node=None) for arm in there.arms] == [
        replace(arm, launch=there.arms[place].launch) for place, arm in enumerate(here.arms)
    ]
    assert there.settings == here.settings
    assert driver.store.runs()[1].arms == ARMS  # listed as any other run
    assert driver.cluster.is_left


def test_an_arm_says_which_node_measured_it(driver: Driver) -> None:
    run = driver.run()
    nodes = [arm.node for arm in run.arms]
    assert [node and (node.address, node.attempt, node.engine) for node in nodes] == [
        ("10.9.0.1", 1, BUILD),
        ("10.9.0.1", 1, BUILD),
    ]
    assert [node and node.task for node in nodes] == [task["key"] for task in driver.cluster.submitted]
    assert nodes[0] is not None
    assert nodes[0].name == f"{nodes[0].host} (10.9.0.1)"
    assert run.machine == nodes[0].machine


def test_the_logs_of_the_servers_come_home(driver: Driver) -> None:
    driver.cluster.servers.faults = [{"dies_after": 4}]
    run = driver.run()
    log = driver.store.log_path(run.run_id, "shipped")
    assert log.read_text() == "I serve 8192 tokens\n"
    (failed,) = (finding for finding in run.arms[0].findings if finding.code == "arm_failed")
    assert failed.where["log"] == str(log)


def test_a_lost_worker_is_tried_again(driver: Driver) -> None:
    driver.cluster.troubles = {"shipped": ["lost"]}
    run = driver.run()
    assert run.status == "finished"
    assert driver.cluster.attempts() == [("shipped", 1), ("yarn:1.5", 1), ("shipped", 2)]
    assert len({task["key"] for task in driver.cluster.submitted}) == 2
    assert [arm.arm for arm in run.arms] == list(TWO)
    assert [arm.node and arm.node.attempt for arm in run.arms] == [2, 1]
    told = [event for event in driver.heard if isinstance(event, events.TaskEnded)]
    assert [(event.arm, event.attempt, event.reason, event.num_ended) for event in told] == [
        ("shipped", 1, "the worker died", 0),
        ("yarn:1.5", 1, None, 1),
        ("shipped", 2, None, 2),
    ]


def test_what_is_lost_too_often_is_given_up_and_can_be_resumed(driver: Driver) -> None:
    driver.cluster.troubles = {"yarn:1.5": ["lost"] * 3}
    run = driver.run(campaign=replace(CLUSTER, retries=1))
    assert driver.cluster.attempts() == [("shipped", 1), ("yarn:1.5", 1), ("yarn:1.5", 2)]
    assert run.status == "finished"
    assert codes(run.arms[1]) == ["task_lost"]
    assert run.arms[1].cells == ()
    driver.cluster = Cluster()
    resumed = driver.run(arms=("unscaled",), resume=run.run_id)
    assert driver.cluster.attempts() == [("yarn:1.5", 1)]
    assert resumed.run_id == run.run_id
    assert codes(resumed.arms[1]) == []
    assert driver.trials(resumed, "yarn:1.5") == driver.trials(driver.at_home(), "yarn:1.5")


@pytest.mark.parametrize("fault", [node._PortTakenError("port 4711 is in use"), KeyboardInterrupt()])
def test_a_taken_port_and_a_worker_told_to_stop_are_tried_again(driver: Driver, fault: BaseException) -> None:
    driver.cluster.servers.faults = [fault]
    run = driver.run(arms=("shipped",))
    assert driver.cluster.attempts() == [("shipped", 1), ("shipped", 2)]
    assert codes(run.arms[0]) == []


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (EngineFailedError("llama-server ended by SIGSEGV while it started"), "arm_failed"),
        ({"dies_after": 4}, "arm_failed"),
        (AttributeError("'NoneType' object has no attribute 'pid'"), "task_crashed"),
    ],
)
def test_a_failed_engine_and_a_mistake_of_ours_are_not_tried_again(
    driver: Driver, fault: dict[str, Any] | Exception, code: str
) -> None:
    driver.cluster.servers.faults = [fault]
    run = driver.run()
    assert driver.cluster.attempts() == [("shipped", 1), ("yarn:1.5", 1)]
    assert [codes(arm) for arm in run.arms] == [[code], []]
    assert run.status == "finished"


def test_a_mistake_of_ours_shows_where_it_was_made(driver: Driver) -> None:
    driver.cluster.servers.faults = [AttributeError("no such thing")]
    (finding,) = (one for one in driver.run(arms=("shipped",)).arms[0].findings if one.severity == "error")
    assert finding.message.endswith("(10.9.0.2): AttributeError: no such thing")
    assert "in start" in finding.where["traceback"]


def test_a_worker_that_cannot_run_tasks_is_not_tried_again(driver: Driver) -> None:
    driver.cluster.troubles = {"shipped": ["failed"]}
    run = driver.run()
    assert driver.cluster.attempts() == [("shipped", 1), ("yarn:1.5", 1)]
    assert codes(run.arms[0]) == ["task_crashed"]


def test_a_refused_plan_is_a_result(driver: Driver) -> None:
    driver.inspection = driver.on_node = deepseek_v3()
    run = driver.run(arms=("yarn:2",), target=65536)
    assert run.status == "failed"
    assert codes(run.arms[0])[-1] == "arm_refused"
    assert driver.cluster.attempts() == [("yarn:2", 1)]


def test_other_weights_on_a_node_are_found_before_anything_is_started(driver: Driver) -> None:
    checkpoint = replace(driver.on_node.checkpoint, files=(CheckpointFile("other.gguf", 5),))
    driver.on_node = replace(driver.on_node, checkpoint=checkpoint)
    run = driver.run(arms=("shipped",))
    finding = run.arms[0].findings[-1]
    assert finding.code == "node_checkpoint_differs"
    assert "(10.9.0.2)" in finding.message
    assert finding.where["node"] == run.arms[0].node.name  # type: ignore[union-attr]
    assert finding.where["expected"] == run.checkpoint_fingerprint != finding.where["found"]
    assert driver.cluster.servers.calls == 0
    assert driver.cluster.attempts() == [("shipped", 1)]


def test_another_ropewalk_on_a_node_is_a_finding(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "__version__", "99.0")
    assert codes(driver.run(arms=("shipped",)).arms[0]) == ["node_version_differs"]
    assert driver.cluster.servers.calls == 0


def test_ctrl_c_leaves_the_cluster_and_resume_goes_on(driver: Driver) -> None:
    driver.cluster.troubles = {"yarn:1.5": ["interrupt"]}
    run = driver.run()
    assert run.status == "interrupted"
    assert driver.cluster.is_left
    assert [arm.arm for arm in run.arms] == ["shipped"]
    driver.cluster = Cluster()
    resumed = driver.run(resume=run.run_id)
    assert driver.cluster.attempts() == [("yarn:1.5", 1)]
    assert resumed.status == "finished"
    assert resumed.comparison == driver.at_home().comparison


def test_a_run_begun_at_home_goes_on_elsewhere(driver: Driver) -> None:
    run = driver.at_home(on_event=_stop_after(3))
    assert run.status == "interrupted"
    resumed = driver.run(resume=run.run_id)
    assert driver.cluster.attempts() == [("shipped", 1), ("yarn:1.5", 1)]
    assert len(driver.cluster.servers.started[0].client.asked) == 1 + 7  # 3 of 10 were asked before
    assert _answers(driver.trials(resumed, "shipped")) == _answers(driver.trials(driver.at_home(), "shipped"))


def test_on_shared_nodes_nothing_is_timed(driver: Driver) -> None:
    run = driver.run(campaign=replace(CLUSTER, whole_nodes=False))
    assert [(arm.speed, arm.speed_fit) for arm in run.arms] == [((), None)] * 2
    assert "speed_left_out" in [finding.code for finding in run.findings]
    assert run.comparison == driver.at_home().comparison
    assert driver.cluster.needs == [Needs(cpus=1)] * 2
    assert run.settings["threads"] == 1  # what the task was given, not what the node has


def test_on_whole_nodes_it_is(driver: Driver) -> None:
    run = driver.run()
    assert [[point.length for point in arm.speed] for arm in run.arms] == [[400, 700]] * 2
    assert driver.cluster.needs == [Needs(whole_node=True)] * 2
    assert run.settings["threads"] is None


def test_gpus_are_those_of_the_task(driver: Driver) -> None:
    driver.run(arms=("shipped",), campaign=CampaignSettings("ray://auto", per_task_gpus=2))
    assert driver.cluster.needs == [Needs(gpus=2)]
    parallel = replace(SMALL, plan={"tensor_parallel": 4})
    with pytest.raises(UsageError, match="2 GPUs, its server is planned for 4"):
        driver.run(parallel, campaign=CampaignSettings("ray://auto", per_task_gpus=2))


def test_a_time_budget_is_refused(driver: Driver) -> None:
    with pytest.raises(UsageError, match="lengths and trials"):
        driver.run(MeasureSettings(minutes=5))
    assert driver.store.runs() == ()


def test_a_key_is_of_the_work_and_of_nothing_else(driver: Driver) -> None:
    small = replace(SMALL, lengths=(400,), depths=(0.1,))

    def keys(settings: MeasureSettings = small, **options: Any) -> set[str]:
        driver.cluster = Cluster()
        driver.run(settings, **options)
        return {task["key"] for task in driver.cluster.submitted}

    first = keys()
    assert len(first) == 2
    assert keys() == first
    for other in (
        keys(replace(small, seed=2)),
        keys(replace(small, lengths=(401,))),
        keys(replace(small, depths=(0.5,))),
        keys(engine_path="/opt/llama-server"),
        keys(target=16384),
    ):
        assert first.isdisjoint(other)


def test_unlike_nodes_are_told(driver: Driver) -> None:
    arms = driver.run().arms
    assert node_findings(arms) == ()
    seen = arms[1].node
    assert seen is not None
    other = replace(arms[1], node=replace(seen, engine=replace(BUILD, version="b99999")))
    (finding,) = node_findings((arms[0], other))
    assert finding.code == "nodes_differ"
    assert set(finding.where) == set(TWO)


def test_a_machine_without_the_engine_plans_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    build = planned_build("vllm", {"engine_version": "0.32.0"}, engine_path="/opt/vllm/bin/vllm")
    assert (build.engine, build.version, build.path) == ("vllm", "0.32.0", "/opt/vllm/bin/vllm")


def _answers(trials: list[Trial]) -> list[tuple[str, str, str]]:
    return [(trial.key, trial.prompt_sha256, trial.answer) for trial in trials]


def _stop_after(count: int) -> Any:
    ended: list[events.Event] = []

    def hear(event: events.Event) -> None:
        if isinstance(event, events.TrialEnded):
            ended.append(event)
            if len(ended) == count:
                raise KeyboardInterrupt

    return hear
