"""What ``--on`` may say."""

from __future__ import annotations

import pytest

from ropewalk.errors import UsageError
from ropewalk.measuring.cluster.settings import CampaignSettings, Place, place_of


@pytest.mark.parametrize(
    ("on", "place"),
    [
        ("local", Place("local")),
        ("ray://auto", Place("ray")),
        ("ray://head:10001", Place("ray", host="head", port=10001)),
        ("ray://[fd00::1]:10001", Place("ray", host="fd00::1", port=10001)),
        ("slurm", Place("slurm")),
        ("slurm:gpu", Place("slurm", partition="gpu")),
    ],
)
def test_places(on: str, place: Place) -> None:
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
