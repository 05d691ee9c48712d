"""``docker run`` and ``podman run`` of the engines' own images: simple ones, taken apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ropewalk.checking.command import Command
from ropewalk.engines import EngineName
from ropewalk.errors import UsageError

# docker run's options, https://docs.docker.com/reference/cli/docker/container/run/: those that people
# start a model server with. Any other is refused, since whether it takes a value decides what follows.
_WITH_VALUE = frozenset({
    "-v", "--volume", "-p", "--publish", "-e", "--env", "--env-file", "--name", "--gpus", "--shm-size",
    "--ipc", "--runtime", "--network", "--net", "-w", "--workdir", "--restart", "--device", "--mount", "-u",
    "--user", "--ulimit", "-m", "--memory", "--cpus", "--cpuset-cpus", "--group-add", "--security-opt",
    "--cap-add", "--add-host", "-h", "--hostname", "-l", "--label", "--platform", "--pull", "--log-driver",
    "--log-opt", "--entrypoint", "--memory-swap", "--cpu-shares", "--userns", "--pid", "--dns", "--tmpfs",
    "--stop-timeout", "--health-cmd", "--health-interval", "--health-timeout", "--health-retries",
    "--health-start-period", "--cgroupns", "--annotation", "--oom-score-adj", "--cap-drop", "--expose",
})  # fmt: skip
_WITHOUT_VALUE = frozenset({
    "--rm", "-d", "--detach", "-i", "--interactive", "-t", "--tty", "-it", "-ti", "-dit", "-itd", "--init",
    "--privileged", "--read-only", "-P", "--publish-all", "--no-healthcheck", "-itP", "-di", "-dt", "-id",
})  # fmt: skip

CONTAINER_PROGRAMS = frozenset({"docker", "podman", "nerdctl"})
_VLLM_IMAGE = re.compile(r"(?:.*/)?vllm-openai(?P<kind>-\w+)?(?::(?P<tag>[^@]*))?(?:@.*)?")
_LLAMA_IMAGE = re.compile(r"(?:.*/)?llama\.cpp:(?P<tag>(?P<kind>server|full)[^@]*)(?:@.*)?")


def read_container(wrappers: tuple[str, ...], words: Sequence[str], env: dict[str, str]) -> Command:
    """The engine's command inside a container. Raises :class:`UsageError` where that cannot be told."""
    if list(words[1:2]) != ["run"]:
        raise _refused(" ".join(words[:2]), "only 'run' starts an engine")
    image_at, inner = _options(words)
    if image_at == len(words):
        raise _refused(words[0], "it names no image")
    engine, arguments_at, version, on_cpu = _image(words, image_at)
    return Command(
        engine=engine,
        prefix=(*wrappers, *words[:arguments_at]),
        arguments=tuple(words[arguments_at:]),
        env=env,
        container_env=inner,
        engine_version=version,
        on_cpu=on_cpu,
    )


def _options(words: Sequence[str]) -> tuple[int, dict[str, str]]:
    """Where the image stands, and the variables set inside the container."""
    inner: dict[str, str] = {}
    at = 2
    while at < len(words) and words[at].startswith("-"):
        name, equals, value = words[at].partition("=")
        if name in _WITH_VALUE:
            if not equals:
                at += 1
                value = words[at] if at < len(words) else ""
            if name in ("-e", "--env") and "=" in value:  # without, the caller's own is handed on
                key, _, text = value.partition("=")
                inner[key] = text
        elif name not in _WITHOUT_VALUE:
            raise _refused(words[at], "what it takes is not known here")
        at += 1
    return at, inner


def _image(words: Sequence[str], at: int) -> tuple[EngineName, int, str | None, bool]:
    """The engine of an image, where its arguments begin, its version, and whether it is for the CPU."""
    image, after = words[at], at + 1
    vllm = _VLLM_IMAGE.fullmatch(image)
    if vllm:
        # A suffix names the platform: v0.9.1-cu126, v0.31.0-ubuntu2404.
        version = re.fullmatch(r"v?(\d+\.\d+(?:\.\d+)*)(?:[-_+].*)?", vllm["tag"] or "")
        if list(words[after : after + 2]) == [
            "vllm",
            "serve",
        ]:  # with --entrypoint, or an image that has none
            after += 2
        return "vllm", after, version[1] if version else None, "cpu" in (vllm["kind"] or "")
    llama = _LLAMA_IMAGE.fullmatch(image)
    if llama:
        version = re.search(r"b\d{4,}", llama["tag"])
        if llama["kind"] == "full":
            if words[after : after + 1] not in (["--server"], ["-s"]):
                raise _refused(image, "the image 'full' runs a server only with --server first")
            after += 1
        return (
            "llama-server",
            after,
            version[0] if version else None,
            llama["tag"].count("-") == bool(version),
        )
    raise _refused(image, "it is neither a vllm-openai nor a llama.cpp server image")


def _refused(word: str, why: str) -> UsageError:
    return UsageError(
        f"{word!r} in a container command is not understood: {why}; give the command that runs inside",
        where={"word": word},
    )
