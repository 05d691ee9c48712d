"""The planned server as every kind of file needs it: one command, how many machines, what each must have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from ropewalk.engines import REGISTRY, Engine, EngineName, Published, engine_of
from ropewalk.errors import UsageError
from ropewalk.inspector.readers.hubsource import HubId
from ropewalk.planner.records import DeviceShare, Launch, Plan
from ropewalk.planner.rope.versions import parse_version
from ropewalk.serving.engines import adapter_of
from ropewalk.serving.engines.vllm.nodes import node_flags
from ropewalk.serving.service import require_positive

_EVERYWHERE = "0.0.0.0"  # noqa: S104  inside a container or a cluster the loopback reaches nobody
_UNRELEASED = re.compile("dev|rc|git")
_PART = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_MODEL_AT = 1  # after "serve" or "-m"; the same word may come again as the name it is served by
_LONGEST_NAME = 40  # of 63 in a DNS label; Kubernetes hangs "-0-1" and hashes on it


@dataclass(frozen=True, slots=True)
class EmittedServer:
    """``argv`` are the engine's arguments without those that tell machines apart, ``env`` what is added to
    the environment. ``model`` is what ``argv`` calls the model; ``hub`` says that it is a
    repository, else it is a path. ``gpus`` are those of one machine, ``host_bytes`` the most that is planned
    in the memory of one; 0 where none is.
    """

    plan: Plan
    name: str
    engine: EngineName
    published: Published
    version: str | None
    argv: tuple[str, ...]
    env: dict[str, str]
    model: str
    hub: HubId | None
    num_nodes: int
    gpus: int
    host_bytes: int

    @property
    def port(self) -> int:
        """The port that the emitted server listens on."""
        return int(self.argv[self.argv.index("--port") + 1])

    @property
    def ready_seconds(self) -> int:
        """How long the engine may take to load."""
        return int(adapter_of(self.engine).READY_SECONDS)

    def reachable(self) -> EmittedServer:
        """The server listening on every address of its machine."""
        return replace(self, argv=_with(self.argv, self.argv.index("--host") + 1, _EVERYWHERE))

    def moved(self, folder: str) -> EmittedServer:
        """The server with its model in another folder; unchanged for one from the Hub."""
        if self.hub is not None:
            return self
        path = f"{folder}/{PurePath(self.model).name or self.name}"
        return replace(self, argv=_with(self.argv, _MODEL_AT, path), model=path)

    def files(self, folder: str) -> tuple[str, str]:
        """Where the checkpoint is and where in ``folder`` it goes, with all parts of a split file."""
        path = PurePath(self.plan.checkpoint)
        return (str(path.parent), folder) if _PART.search(path.name) else (str(path), self.model)

    def of_node(self, node: int | str, *, head: str) -> tuple[str, ...]:
        """What this machine's command has after ``argv``; both may be a launcher's own variables."""
        return node_flags(num_nodes=self.num_nodes, node=node, head=head)


def server_of(plan: Plan, *, hub: HubId | None) -> EmittedServer:
    """What the plan's launch record starts. Raises :class:`UsageError` for a plan that must not start."""
    launch = _launch_of(plan)
    argv, env = _alike(launch)
    engine = engine_of(launch.engine)
    if hub is not None and not engine.reads_hub:
        raise UsageError(
            f"{engine.name} is given a file: download {hub.repo} and plan for that",
            where={"checkpoint": hub.repo, "engine": engine.name},
        )
    return EmittedServer(
        plan=plan,
        name=_dns_name(argv[_MODEL_AT]),
        engine=engine.name,
        published=_published(engine),
        version=launch.engine_version,
        argv=argv,
        env=env,
        model=argv[_MODEL_AT],
        hub=hub,
        num_nodes=max(1, len(launch.nodes)),
        gpus=_gpus(plan, max(1, len(launch.nodes))),
        host_bytes=_host_bytes(plan.memory.per_device),
    )


def require_published(server: EmittedServer) -> str:
    """The version to pin images and packages to. Raises :class:`UsageError` where it was never released."""
    published, version, engine = server.published, server.version, server.engine
    parts = parse_version(version, engine)
    if version is not None and parts is not None and not _UNRELEASED.search(version):
        return published.release.format(*parts)
    raise UsageError(
        f"add --engine-version (such as {published.example}) to choose the image tag: the plan is for "
        f"{version or 'any version'} of {engine}",
        where={"flag": "--engine-version", "value": version, "engine": engine},
    )


def require_no_rpc(server: EmittedServer, kind: str) -> None:
    """Raise :class:`UsageError` for a plan whose layers lie on RPC servers."""
    servers = server.plan.request.rpc_servers
    if servers:
        raise UsageError(
            f"{kind} has no safe place for llama.cpp's RPC servers, which have no password: only in a shell "
            "script for a network that you trust",
            where={"kind": kind, "rpc_servers": list(servers)},
        )


def require_one_machine(server: EmittedServer, kind: str) -> None:
    """Raise :class:`UsageError` for a plan over several machines."""
    if server.num_nodes > 1:
        raise UsageError(
            f"{kind} starts one machine, the plan is for {server.num_nodes}: choose k8s, slurm, skypilot or "
            "shell",
            where={"kind": kind, "num_nodes": server.num_nodes},
        )


def require_writable(words: Iterable[str], kind: str) -> None:
    """Raise :class:`UsageError` for a word that such a file cannot hold."""
    for word in words:
        if _CONTROL.search(word):
            raise UsageError(
                f"{kind} has no way to write the control characters of {word!a}",
                where={"kind": kind, "word": ascii(word)},
            )


def _launch_of(plan: Plan) -> Launch:
    require_positive(plan)
    if plan.launch is None:
        raise UsageError(
            f"a plan for {plan.request.engine} has no command to start", where={"engine": plan.request.engine}
        )
    return plan.launch


def _published(engine: Engine) -> Published:
    if engine.published is None:
        others = " and ".join(one.name for one in REGISTRY.values() if one.published)
        raise UsageError(
            f"scripts and manifests are written for {others}, not for {engine.name}",
            where={"engine": engine.name},
        )
    return engine.published


def _alike(launch: Launch) -> tuple[tuple[str, ...], dict[str, str]]:
    """Arguments and environment that all machines have in common."""
    if not launch.nodes:
        return launch.argv, launch.env
    first = launch.nodes[0]
    own = node_flags(num_nodes=len(launch.nodes), node=0, head=first.address)
    env = {name: value for name, value in first.env.items() if name != "VLLM_HOST_IP"}
    return first.argv[: -len(own)], env


def _with(argv: Sequence[str], at: int, word: str) -> tuple[str, ...]:
    return (*argv[:at], word, *argv[at + 1 :])


def _gpus(plan: Plan, num_nodes: int) -> int:
    """GPUs of one machine; vLLM has as many on each (engine/arg_utils.py:2366, 0.32.0)."""
    return sum(map(_on_gpu, plan.memory.per_device)) // num_nodes


def _host_bytes(shares: Iterable[DeviceShare]) -> int:
    """Upper end of what lies in the memory of the fullest machine, beside its GPUs."""
    nodes: dict[int, int] = {}
    for share in shares:
        node = share.place.node if share.place else 0
        high = share.total_bytes if share.high_bytes is None else share.high_bytes
        nodes[node] = nodes.get(node, 0) + (0 if _on_gpu(share) else high)
    return max(nodes.values(), default=0)


def _on_gpu(share: DeviceShare) -> bool:
    return share.device.startswith("gpu")


def _dns_name(checkpoint: str) -> str:
    """A name that Kubernetes takes for a Service: RFC 1035, a letter first."""
    stem = PurePath(checkpoint).name.removesuffix(".gguf").lower()
    name = re.sub("[^a-z0-9]+", "-", stem)[:_LONGEST_NAME].strip("-")
    return name if name[:1].isalpha() else f"model-{name}".rstrip("-")
