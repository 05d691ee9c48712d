"""What ``--on`` may say."""

from __future__ import annotations

import pytest

from ropewalk.errors import UsageError
from ropewalk.measuring.cluster.settings import CampaignSettings, ClusterAddress, place_of


@pytest.mark.parametrize(
    ("on", "place"),
    [
        ("local", ClusterAddress("local")),
        ("ray://auto", ClusterAddress("ray")),
        ("ray://head:10001", ClusterAddress("ray", host="head", port=10001)),
        ("ray://[fd00::1]:10001", ClusterAddress("ray", host="fd00::1", port=10001)),
        ("slurm", ClusterAddress("slurm")),
        ("slurm:gpu", ClusterAddress("slurm", partition="gpu")),
    ],
)
def test_places(on: str, place: ClusterAddress) -> None:
    assert place_of(on) == place


@pytest.mark.parametrize(
    "on",
    ["", "ray", "ray://", "ray://head", "ray://head:port", "ray://head:1/x", "ray://:1", "slurm:", "k8s"],
)
def test_no_places(on: str) -> None:
    with pytest.raises(UsageError, match="no place to measure on"):
        place_of(on)


def test_who_has_a_node_to_itself() -> None:
    assert CampaignSettings("local").has_whole_nodes
    assert not CampaignSettings("slurm").has_whole_nodes
    assert CampaignSettings("slurm").shares_cpus
    assert not CampaignSettings("slurm", per_task_gpus=1).shares_cpus
