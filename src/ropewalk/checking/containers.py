"""``docker run`` and ``podman run`` of the engines' own images: simple ones, taken apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ropewalk.checking.argv import Command
from ropewalk.engines import EngineName
from ropewalk.errors import UsageError

# docker run's options, https://docs.docker.com/reference/cli/docker/container/run/: those that people
# start a model server with. Any other is refused, since whether it takes a value decides what follows.
_WITH_VALUE = frozenset({
    "-v", "--volume", "-p", "--publish", "-e", "--env", "--env-file", "--name", "--gpus", "--shm-size",
    "--ipc", "--runtime", "--network", "--net", "-w", "--workdir", "--restart", "--device", "--mount", "-u",
    "--user", "--ulimit", "-m", "--memory", "--cpus", "--cpuset-cpus", "--group-add", "--security-opt",
    "--cap-add", "--add-host", "-h", "--hostname", "-l", "--label", "--platform", "--pull", "--log-driver",
    "--log-opt",
})  # fmt: skip
_WITHOUT_VALUE = frozenset({
    "--rm", "-d", "--detach", "-i", "--interactive", "-t", "--tty", "-it", "-ti", "-dit", "-itd", "--init",
    "--privileged",
})  # fmt: skip

_VLLM_IMAGE = re.compile(r"(?:.*/)?vllm-openai(?:-cpu|-rocm)?(?::(?P<tag>[^@]*))?(?:@.*)?")
_LLAMA_IMAGE = re.compile(r"(?:.*/)?llama\.cpp:(?P<tag>(?P<kind>server|full)[^@]*)(?:@.*)?")


def read_container(wrappers: tuple[str, ...], words: Sequence[str], env: dict[str, str]) -> Command:
    """The engine's command inside a container. Raises :class:`UsageError` where that cannot be told."""
    if list(words[1:2]) != ["run"]:
        raise _refused(" ".join(words[:2]), "only 'run' starts an engine")
    image_at, inner = _options(words)
    if image_at == len(words):
        raise _refused(words[0], "it names no image")
    engine, arguments_at, version = _image(words, image_at)
    return Command(
        engine=engine,
        prefix=(*wrappers, *words[:arguments_at]),
        arguments=tuple(words[arguments_at:]),
        env=env,
        container_env=inner,
        engine_version=version,
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
            if name in ("-e", "--env"):
                key, _, text = value.partition("=")
                inner[key] = text
        elif name not in _WITHOUT_VALUE:
            raise _refused(words[at], "what it takes is not known here")
        at += 1
    return at, inner


def _image(words: Sequence[str], at: int) -> tuple[EngineName, int, str | None]:
    """The engine of an image, where its arguments begin, and the version in the tag."""
    image, after = words[at], at + 1
    vllm = _VLLM_IMAGE.fullmatch(image)
    if vllm:
        version = re.fullmatch(r"v?(\d+\.\d+(?:\.\d+)?)", vllm["tag"] or "")
        return "vllm", after, version[1] if version else None
    llama = _LLAMA_IMAGE.fullmatch(image)
    if llama:
        version = re.search(r"b\d{4,}", llama["tag"])
        if llama["kind"] == "full":
            if words[after : after + 1] not in (["--server"], ["-s"]):
                raise _refused(image, "the image 'full' runs a server only with --server first")
            after += 1
        return "llama-server", after, version[0] if version else None
    raise _refused(image, "it is neither a vllm-openai nor a llama.cpp server image")


def _refused(word: str, why: str) -> UsageError:
    return UsageError(
        f"{word!r} in a container command is not understood: {why}; give the command that runs inside",
        where={"word": word},
    )
