"""What a LeaderWorkerSet must look like: the envelope, strictly (kubernetes-sigs/lws
api/leaderworkerset/v1/leaderworkerset_types.go); its pod templates are checked as pods."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Strict(BaseModel):
    """No name that is not listed, no value of another type."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Metadata(Strict):
    """Of the set, or of a template, which has no name."""

    name: str = Field(default="x", pattern=r"^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$")
    labels: dict[str, str] = {}


class PodTemplate(Strict):
    """A pod of the group."""

    metadata: Metadata
    spec: dict[str, Any]


class LeaderWorkerTemplate(Strict):
    """A group."""

    size: int = Field(ge=1)
    restartPolicy: Literal["RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"]
    leaderTemplate: PodTemplate
    workerTemplate: PodTemplate


class Spec(Strict):
    """How many groups."""

    replicas: int
    leaderWorkerTemplate: LeaderWorkerTemplate


class LeaderWorkerSet(Strict):
    """The whole."""

    apiVersion: Literal["leaderworkerset.x-k8s.io/v1"]
    kind: Literal["LeaderWorkerSet"]
    metadata: Metadata
    spec: Spec
