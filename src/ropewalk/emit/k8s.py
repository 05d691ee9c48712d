"""Kubernetes manifests: a Deployment for one machine, a LeaderWorkerSet for several, and a Service."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from ropewalk.emit.header import header
from ropewalk.emit.server import EmittedServer, require_no_rpc, require_published
from ropewalk.emit.yamltext import yaml_text
from ropewalk.units import MIB

_MODELS, _CLAIM, _SECRET = "/models", "models", "huggingface"
_CACHE = "/cache/huggingface"
_PROBE_SECONDS = 10
_NAME, _SET_NAME, _WORKER = (
    "app.kubernetes.io/name",
    "leaderworkerset.sigs.k8s.io/name",
    "leaderworkerset.sigs.k8s.io/worker-index",
)
Data = dict[str, Any]


def manifest(server: EmittedServer) -> str:
    """YAML for ``kubectl apply``.

    Raises :class:`UsageError` without a released version, and for RPC servers.
    """
    require_no_rpc(server, "Kubernetes")
    image = server.published.image(require_published(server), gpu=server.gpus > 0)
    server = server.reachable().moved(_MODELS)
    documents = _single(server, image) if server.num_nodes == 1 else _group(server, image)
    return header(server, *_notes(server)) + yaml_text(*documents)


def _notes(server: EmittedServer) -> tuple[str, ...]:
    if server.hub is None:
        name = PurePath(server.plan.checkpoint).name
        needs = f"a PersistentVolumeClaim {_CLAIM} with {name} in it"
    else:
        needs = f"for a gated model a Secret {_SECRET} with its token; each pod downloads {server.model} anew"
    lines = [f"kubectl apply -f THIS_FILE; before: {needs}."]
    if server.num_nodes > 1:
        lines.append("LeaderWorkerSet 0.6 or later is installed in the cluster: it tells a pod its number.")
    return tuple(lines)


def _single(server: EmittedServer, image: str) -> tuple[Data, Data]:
    labels = {_NAME: server.name}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": server.name, "labels": labels},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},  # a second one beside it would wait for devices for ever
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _pod(server, (), image, _probes(server))},
        },
    }
    return deployment, _service(server.name, server, labels)


def _group(server: EmittedServer, image: str) -> tuple[Data, Data]:
    leader = server.of_node(0, head="$(LWS_LEADER_ADDRESS)")
    worker = server.of_node("$(LWS_WORKER_INDEX)", head="$(LWS_LEADER_ADDRESS)")
    labels = {_NAME: server.name}
    leader_worker_set = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": server.name, "labels": labels},
        "spec": {
            "replicas": 1,
            "leaderWorkerTemplate": {
                "size": server.num_nodes,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": {
                    "metadata": {"labels": labels},
                    "spec": _pod(server, leader, image, _probes(server)),
                },
                "workerTemplate": {
                    "metadata": {"labels": labels},
                    "spec": _pod(server, worker, image, {}),
                },
            },
        },
    }
    # The set's own headless Service has the set's name.
    selector = {_SET_NAME: server.name, _WORKER: "0"}
    return leader_worker_set, _service(f"{server.name}-leader", server, selector)


def _pod(server: EmittedServer, own: Sequence[str], image: str, probes: Data) -> Data:
    """One container; ``own`` are arguments beside the common ones, ``probes`` empty where none asks it."""
    mounts, volumes = zip(_shared_memory(), _model(server), strict=True)
    container = {
        "name": server.engine,
        "image": image,
        "command": [server.published.program],
        "args": [*map(_literal, server.argv), *own],
        "env": _env(server),
        **({"ports": [{"name": "http", "containerPort": server.port}], **probes} if probes else {}),
        "resources": _resources(server),
        "volumeMounts": list(mounts),
    }
    # A Service called vllm would otherwise set VLLM_PORT to an address, which vLLM refuses (vllm#18209).
    return {"enableServiceLinks": False, "containers": [_filled(container)], "volumes": list(volumes)}


def _literal(word: str) -> str:
    """A word in which Kubernetes replaces nothing: it would read ``$(NAME)``."""
    return word.replace("$", "$$")


def _env(server: EmittedServer) -> list[Data]:
    values: list[Data] = [{"name": name, "value": _literal(value)} for name, value in server.env.items()]
    if server.num_nodes > 1:
        own = {"fieldRef": {"fieldPath": "status.podIP"}}
        values.append({"name": "VLLM_HOST_IP", "valueFrom": own})
    if server.hub is not None:
        token = {"name": _SECRET, "key": "token", "optional": True}
        values.append({"name": "HF_HOME", "value": _CACHE})
        values.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": token}})
    return values


def _probes(server: EmittedServer) -> Data:
    """Nobody restarts it while it loads, for as long as that may take."""
    probe = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": _PROBE_SECONDS}
    patience = -(-server.ready_seconds // _PROBE_SECONDS)
    return {"startupProbe": {**probe, "failureThreshold": patience}, "readinessProbe": probe}


def _resources(server: EmittedServer) -> Data:
    """Devices, and what the plan puts into the machine's own memory; how much beside that is not planned."""
    memory = {"memory": f"{-(-server.host_bytes // MIB)}Mi"} if server.host_bytes else {}
    return _filled({"requests": memory, "limits": {"nvidia.com/gpu": server.gpus} if server.gpus else {}})


def _shared_memory() -> tuple[Data, Data]:
    """The ranks of a machine talk through it, and a container has 64 MiB unasked."""
    return {"name": "shm", "mountPath": "/dev/shm"}, {"name": "shm", "emptyDir": {"medium": "Memory"}}  # noqa: S108


def _model(server: EmittedServer) -> tuple[Data, Data]:
    if server.hub is not None:
        return {"name": "cache", "mountPath": _CACHE}, {"name": "cache", "emptyDir": {}}
    claim = {"claimName": _CLAIM, "readOnly": True}
    mount = {"name": "models", "mountPath": _MODELS, "readOnly": True}
    return mount, {"name": "models", "persistentVolumeClaim": claim}


def _service(name: str, server: EmittedServer, selector: Data) -> Data:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": {_NAME: server.name}},
        "spec": {
            "selector": selector,
            "ports": [{"name": "http", "port": server.port, "targetPort": "http"}],
        },
    }


def _filled(data: Data) -> Data:
    return {name: value for name, value in data.items() if value}
