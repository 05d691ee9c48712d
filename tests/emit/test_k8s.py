"""Kubernetes manifests: what they ask for, and that they are valid by Kubernetes' own schemas."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from tests.emit.lws import LeaderWorkerSet
from tests.emit.plans import of_checkpoint

from ropewalk.emit import emit
from ropewalk.inspector.readers.hubsource import HubId
from ropewalk.planner.records import Plan
from ropewalk.serving.engines.vllm.nodes import node_flags

Data = dict[str, Any]


def documents(plan: Plan, **options: Any) -> list[Data]:
    return list(yaml.safe_load_all(emit(plan, "k8s", **options)))


def pod_of(document: Data) -> Data:
    spec: Data = document["spec"]["template"]["spec"]
    return spec


def container_of(pod: Data) -> Data:
    (container,) = pod["containers"]
    assert isinstance(container, dict)
    return container


def templates(document: Data) -> tuple[Data, Data]:
    group = document["spec"]["leaderWorkerTemplate"]
    return group["leaderTemplate"]["spec"], group["workerTemplate"]["spec"]


def in_container(plan: Plan) -> list[str]:
    """The planned arguments on every address, with the model where the claim is mounted."""
    assert plan.launch is not None
    argv = [
        word.replace(plan.checkpoint, f"/models/{Path(plan.checkpoint).name}") for word in plan.launch.argv
    ]
    argv[argv.index("--host") + 1] = "0.0.0.0"
    return argv


def expanded(words: list[str], environment: Mapping[str, str]) -> list[str]:
    """``$(NAME)`` replaced as Kubernetes does it, ``$$`` being one ``$``."""

    def value(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else environment.get(match[1], match[0])

    return [re.sub(r"\$\$|\$\((\w+)\)", value, word) for word in words]


def test_one_machine_is_a_deployment_and_a_service(single: Plan) -> None:
    deployment, service = documents(single)
    container = container_of(pod_of(deployment))
    assert container["image"] == "vllm/vllm-openai:v0.33.0"
    assert container["command"] == ["vllm"]
    assert container["args"] == in_container(single)
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert {"name": "shm", "emptyDir": {"medium": "Memory"}} in pod_of(deployment)["volumes"]
    labels = pod_of(deployment) and deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["ports"] == [{"name": "http", "port": 8000, "targetPort": "http"}]
    assert container["ports"] == [{"name": "http", "containerPort": 8000}]


def test_it_may_load_for_as_long_as_the_engine_takes(single: Plan, gguf: Plan) -> None:
    for plan, seconds in ((single, 1800), (gguf, 900)):
        container = container_of(pod_of(documents(plan)[0]))
        start = container["startupProbe"]
        assert start["periodSeconds"] * start["failureThreshold"] == seconds
        assert container["readinessProbe"]["httpGet"] == {"path": "/health", "port": "http"}
        assert "livenessProbe" not in container


def test_on_the_processor_memory_is_asked_for(gguf: Plan) -> None:
    deployment, _ = documents(gguf)
    container = container_of(pod_of(deployment))
    assert container["image"] == "ghcr.io/ggml-org/llama.cpp:server-b11434"
    assert container["command"] == ["/app/llama-server"]
    assert container["resources"] == {"requests": {"memory": f"{-(-gguf.memory.high_bytes // 2**20)}Mi"}}
    assert container["args"] == in_container(gguf)


def test_several_machines_are_one_group(group: Plan) -> None:
    leader_worker_set, service = documents(group)
    leader, worker = templates(leader_worker_set)
    assert leader_worker_set["spec"]["leaderWorkerTemplate"]["size"] == 2
    own = node_flags(num_nodes=2, node=0, head="NODE0")
    common = in_container(group)[: -len(own)]
    for pod, index in ((leader, 0), (worker, 1)):
        container = container_of(pod)
        given = {"LWS_LEADER_ADDRESS": "qwen3-8b-0.qwen3-8b.default", "LWS_WORKER_INDEX": str(index)}
        flags = node_flags(num_nodes=2, node=index, head=given["LWS_LEADER_ADDRESS"])
        assert expanded(container["args"], given) == [*common, *flags]
        assert container["resources"] == {"limits": {"nvidia.com/gpu": 2}}
        (address,) = container["env"]
        assert address["name"] == "VLLM_HOST_IP"
    assert "readinessProbe" in container_of(leader)
    assert "readinessProbe" not in container_of(worker)
    # The set makes a headless Service of its own name itself.
    assert service["metadata"]["name"] == "qwen3-8b-leader"
    assert service["spec"]["selector"] == {
        "leaderworkerset.sigs.k8s.io/name": "qwen3-8b",
        "leaderworkerset.sigs.k8s.io/worker-index": "0",
    }


def test_words_reach_the_engine_as_planned(group: Plan) -> None:
    """Kubernetes replaces ``$(NAME)``, YAML reads ``on`` and ``1e3`` as something else than text."""
    assert group.launch is not None
    first = group.launch.nodes[0]
    odd = ("--x", "$(LWS_GROUP_SIZE)", "$$", "on", "1e3", "null", "~", "a: b # c", "two\nlines", " x ")
    nodes = (replace(first, argv=(*first.argv[:4], *odd, *first.argv[4:])), *group.launch.nodes[1:])
    plan = replace(group, launch=replace(group.launch, nodes=nodes))
    args = container_of(templates(documents(plan)[0])[0])["args"]
    assert expanded(args, {"LWS_GROUP_SIZE": "2"})[4:14] == list(odd)


def test_a_hub_id_is_downloaded_at_its_revision(single: Plan) -> None:
    plan = of_checkpoint(single, "Qwen/Qwen3-8B@v1.0")
    container = container_of(pod_of(documents(plan, hub=HubId("Qwen/Qwen3-8B", "v1.0", None))[0]))
    assert container["args"][:2] == ["serve", "Qwen/Qwen3-8B"]
    assert container["args"][container["args"].index("--revision") + 1] == "v1.0"
    assert [value["name"] for value in container["env"]] == ["HF_HOME", "HF_TOKEN"]
    assert container["env"][1]["valueFrom"]["secretKeyRef"]["optional"] is True


def test_the_name_it_is_served_by_stays(single: Plan) -> None:
    """It is the same word as a checkpoint in this very folder."""
    args = container_of(pod_of(documents(of_checkpoint(single, "Qwen3-8B"))[0]))["args"]
    assert args[:2] == ["serve", "/models/Qwen3-8B"]
    assert args[args.index("--served-model-name") + 1] == "Qwen3-8B"


@pytest.fixture(scope="module")
def validate() -> Any:
    """Kubernetes' own schemas, strictly."""
    module = pytest.importorskip("kubernetes_validate", reason="the dependency group `manifests`")

    def check(document: Data) -> None:
        module.validate(document, module.latest_version(), strict=True)

    return check


def as_pod(spec: Data) -> Data:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}


@pytest.mark.parametrize("fixture", ["single", "gguf"])
@pytest.mark.extra
def test_a_deployment_is_valid(fixture: str, request: pytest.FixtureRequest, validate: Any) -> None:
    for document in documents(request.getfixturevalue(fixture)):
        validate(document)


@pytest.mark.extra
def test_a_group_is_valid(group: Plan, validate: Any) -> None:
    leader_worker_set, service = documents(group)
    LeaderWorkerSet.model_validate(leader_worker_set)
    for spec in templates(leader_worker_set):
        validate(as_pod(spec))
    validate(service)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("spec", "template", "spec", "containers", 0, "ressources"), {}, "'ressources' was unexpected"),
        (("spec", "template", "spec", "containers", 0, "args", 3), 8000, "8000"),
        (("spec", "template", "spec", "containers", 0, "ports", 0, "containerPort"), "8000", "'8000'"),
        (("spec", "replica"), 1, "'replica' was unexpected"),
    ],
)
@pytest.mark.extra
def test_a_typing_error_would_be_found(
    single: Plan, path: tuple[str | int, ...], value: object, said: str, validate: Any
) -> None:
    deployment, _ = documents(single)
    validate(deployment)
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    with pytest.raises(kubernetes_validate.ValidationError, match=said):
        validate(changed(deployment, path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "leaderWorkerTemplate", "sizes"), 2),
        (("spec", "leaderWorkerTemplate", "size"), "2"),
        (("spec", "leaderWorkerTemplate", "restartPolicy"), "Always"),
        (("spec", "leaderWorkerTemplate", "workerTemplates"), {}),
        (("metadata", "name"), "0-qwen"),
    ],
)
@pytest.mark.extra
def test_a_typing_error_in_a_group_would_be_found(
    group: Plan, path: tuple[str | int, ...], value: object
) -> None:
    with pytest.raises(ValidationError, match=str(path[-1])):
        LeaderWorkerSet.model_validate(changed(documents(group)[0], path, value))


def changed(document: Data, path: tuple[str | int, ...], value: object) -> Data:
    """A copy with this value there."""
    whole = place = copy.deepcopy(document)
    for step in path[:-1]:
        place = place[step]  # type: ignore[index]
    place[path[-1]] = value  # type: ignore[index]
    return whole


@pytest.fixture(scope="module")
def definition(shared: Path) -> Any:
    """The resource definition of LeaderWorkerSet, made strict: what it does not list is refused."""
    jsonschema = pytest.importorskip("jsonschema", reason="the dependency group `manifests`")
    with (shared / "crd" / "leaderworkerset.yaml").open() as stream:
        crd = yaml.load(stream, yaml.CSafeLoader)
    (version,) = crd["spec"]["versions"]
    return jsonschema.Draft7Validator(strict(version["schema"]["openAPIV3Schema"]))


def strict(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return [strict(item) for item in schema] if isinstance(schema, list) else schema
    made = {name: strict(value) for name, value in schema.items()}
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


@pytest.mark.extra
def test_a_group_is_valid_by_its_definition(group: Plan, definition: Any) -> None:
    leader_worker_set, _ = documents(group)
    assert list(definition.iter_errors(leader_worker_set)) == []
    for path in (("sizes",), ("leaderTemplate", "spec", "containers", 0, "port")):
        wrong = changed(leader_worker_set, ("spec", "leaderWorkerTemplate", *path), 2)
        (error,) = definition.iter_errors(wrong)
        assert f"'{path[-1]}' was unexpected" in error.message
