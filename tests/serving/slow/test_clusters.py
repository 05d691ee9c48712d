"""Campaigns on the real schedulers, with the embedded engine.

Ray listens on every address that it finds, so its cluster lives in a network namespace of its own, on two
addresses of a loopback that nobody else sees.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serving.slow.ray_namespace import ARMS, HEAD, OTHER

from ropewalk.core import inspect
from ropewalk.engines import EngineBuild
from ropewalk.measuring.cluster.campaign import run_campaign
from ropewalk.measuring.cluster.settings import CampaignSettings
from ropewalk.measuring.cluster.slurm import SlurmBackend
from ropewalk.measuring.measure import MeasureSettings, run_measurement
from ropewalk.measuring.store import RunStore
from ropewalk.serving.engines import pick_engine

pytestmark = [pytest.mark.slow, pytest.mark.engine]

SCRIPT = Path(__file__).with_name("ray_namespace.py")
SECONDS = 900.0  # on a busy machine; under two minutes on one that is not
PATIENCE = {  # Ray imports itself for each client; on a busy machine longer than the 30 s that it allows
    "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "300",
    "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "300",
}
ADDRESSES = f'ip link set lo up && ip addr add {HEAD}/32 dev lo && ip addr add {OTHER}/32 dev lo && exec "$@"'


@pytest.fixture
def namespace() -> list[str]:
    """The words that run a command among processes and addresses of its own, which end with it."""
    words = ["unshare", "-n", "-p", "-f", "--mount-proc", "--kill-child", *(["-r"] if os.geteuid() else [])]
    words += ["bash", "-c", ADDRESSES, "bash"]
    try:
        tried = subprocess.run([*words, "true"], capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"no namespace can be made here: {error}")
    if tried.returncode:
        pytest.skip(f"no namespace can be made here: {tried.stderr.strip()}")
    return words


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder for sockets, whose paths may have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="rw-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def test_a_ray_campaign_outlives_a_worker_and_a_node(
    smollm2: Path, embedded: EngineBuild, namespace: list[str], short_path: Path
) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    done = subprocess.run(
        [*namespace, sys.executable, str(SCRIPT), str(smollm2), str(short_path)],
        env={**os.environ, **PATIENCE, "RAY_USAGE_STATS_ENABLED": "0"},
        stdout=subprocess.PIPE,
        timeout=SECONDS,
        check=True,
    )
    seen = json.loads(done.stdout)
    run: dict[str, Any] = seen["record"]
    assert run["status"] == "finished"
    assert [arm["arm"] for arm in run["arms"]] == list(ARMS)
    assert [[cell["trials"] for cell in arm["cells"]] for arm in run["arms"]] == [[1]] * len(ARMS)
    nodes = [arm["node"] for arm in run["arms"]]
    assert sum(node["attempt"] - 1 for node in nodes) == 2  # one worker and one node
    assert {node["address"] for node in nodes} <= {HEAD, OTHER}
    assert seen["killed"][1] == OTHER
    assert seen["left"] == []


def test_jobs_of_submitit_measure_what_is_measured_here(
    smollm2: Path, embedded: EngineBuild, tmp_path: Path
) -> None:
    pytest.importorskip("submitit", reason="the extra `slurm` is not installed")
    settings = MeasureSettings(lengths=(320,), depths=(0.2, 0.8), threads=1)
    run: dict[str, Any] = {
        "model": str(smollm2),
        "build": pick_engine("llama-server"),
        "context_len": 512,
        "arms": ("shipped", "yarn:2"),
        "settings": settings,
    }
    with RunStore(tmp_path / "runs.sqlite3") as store:
        there = run_campaign(
            inspect(smollm2),
            **run,
            store=store,
            campaign=CampaignSettings("slurm"),
            open_backend=lambda campaign, folder: SlurmBackend(folder, cluster="local"),
        )
        here = run_measurement(inspect(smollm2), **run, store=store)
        trials = [store.trials(one.run_id) for one in (there, here)]
    assert there.status == here.status == "finished"
    keys = [{(trial.key, trial.prompt_sha256, trial.answer) for trial in own} for own in trials]
    assert len(keys[0]) == 4
    assert keys[0] == keys[1]
    assert {trial.prefill_seconds for trial in trials[0]} == {None}
    assert there.comparison == here.comparison
