"""``docker run`` and ``podman run`` of the engines' own images: simple ones, taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.checking.command import Command
from ropewalk.checking.image import read_image, refused
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


def read_container(wrappers: tuple[str, ...], words: Sequence[str], env: dict[str, str]) -> Command:
    """The engine's command inside a container. Raises :class:`UsageError` where that cannot be told."""
    if list(words[1:2]) != ["run"]:
        raise refused(" ".join(words[:2]), "only 'run' starts an engine")
    image_at, inner = _options(words)
    if image_at == len(words):
        raise refused(words[0], "it names no image")
    engine, image = read_image(words[image_at], words[image_at + 1 :])
    arguments_at = image_at + 1 + image.skipped
    return Command(
        engine=engine,
        prefix=(*wrappers, *words[:arguments_at]),
        arguments=tuple(words[arguments_at:]),
        env=env,
        container_env=inner,
        engine_version=image.version,
        on_cpu=image.on_cpu,
    )


@dataclass(frozen=True, slots=True)
class Entrypoint:
    """The words that an image is given to start, instead of what it starts itself."""

    words: tuple[str, ...]
    env: dict[str, str]
    version: str | None
    on_cpu: bool | None


def read_entrypoint(words: Sequence[str]) -> Entrypoint | None:
    """What ``--entrypoint`` names, with what stands behind the image; None without it. Raises as
    :func:`read_container`."""
    if list(words[1:2]) != ["run"] or not any(word.startswith("--entrypoint") for word in words):
        return None
    image_at, inner = _options(words)
    entry = next(
        (
            word.partition("=")[2] or words[at + 1]
            for at, word in enumerate(words[:image_at])
            if word.partition("=")[0] == "--entrypoint" and at + 1 < len(words)
        ),
        "",
    )
    if not entry or image_at == len(words):
        return None
    try:
        _, image = read_image(words[image_at], ("--server",))
    except UsageError:
        return Entrypoint((entry, *words[image_at + 1 :]), inner, None, None)
    return Entrypoint((entry, *words[image_at + 1 :]), inner, image.version, image.on_cpu)


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
            raise refused(words[at], "what it takes is not known here")
        at += 1
    return at, inner
