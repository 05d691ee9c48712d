"""Command lines inside documents: compose files, Kubernetes manifests, llama-swap's configuration, scripts.

A document is turned into one command line; nothing in it is run, and no variable is looked up outside it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ropewalk.checking.script import with_defaults
from ropewalk.errors import UsageError
from ropewalk.limits import MAX_COMMAND_CHARS

_SUFFIXES = frozenset({".yaml", ".yml", ".json", ".sh", ".service", ".txt", ".container", ".bat", ".ps1"})
_KEYS = re.compile(r"^[ \t]*\"?(?:services|models|spec)\"?[ \t]*:", re.MULTILINE)
_MACRO = re.compile(r"\$\{([\w.-]{1,64})\}")
_PROGRAM = re.compile(r"(?:.*/)?(?:vllm|llama-server|(?:ba)?sh|python[0-9.]*)")
_MAX_ROUNDS = 4  # macros within macros


def read_document(words: Sequence[str]) -> tuple[str, ...] | None:
    """The command of a file: ``FILE``, or ``FILE NAME`` where it has several; None for what names no file.

    Raises :class:`UsageError` for a file that cannot be read or names no engine.
    """
    if not 1 <= len(words) <= 2 or Path(words[0]).suffix.lower() not in _SUFFIXES:
        return None
    path = Path(words[0])
    if not path.is_file():
        return None
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_COMMAND_CHARS + 1).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", where={"file": str(path)}) from error
    command = command_of(text, name=words[1] if len(words) == 2 else None)
    return (text if command is None else command,)


def command_of(text: str, *, name: str | None = None) -> str | None:
    """The command line of a YAML document; None for what is none with services or models.

    ``name`` chooses one of several. Raises :class:`UsageError` where the choice is open.
    """
    if not _KEYS.search(text) or len(text) > MAX_COMMAND_CHARS:
        return None
    commands: dict[str, str] = {}
    for document in _loaded(with_defaults(text)):
        commands.update(_services(document))
        commands.update(_models(document))
        commands.update(_pods(document))
    if name is not None and name in commands:
        return commands[name]
    found = {key: line for key, line in commands.items() if _names_engine(line)}
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if not commands:
        return None
    names = ", ".join(sorted(found or commands))
    raise UsageError(
        f"{'no' if name else 'not one'} command {f'named {name}' if name else 'but several'}: {names}"
        if found
        else f"no command of {names} starts an engine",
        where={"names": sorted(found or commands)},
    )


def _loaded(text: str) -> list[Mapping[str, Any]]:
    import yaml

    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, RecursionError, ValueError):
        return []
    return [document for document in documents if isinstance(document, Mapping)]


def _names_engine(line: str) -> bool:
    return re.search(r"vllm|llama-server|llama_cpp|llama\.cpp", line) is not None


def _services(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Compose: https://docs.docker.com/reference/compose-file/services/."""
    for name, service in _mapping(document.get("services")).items():
        service = _mapping(service)
        words = [*_words(service.get("entrypoint")), *_words(service.get("command"))]
        yield (
            str(name),
            _container(_text(service.get("image")), words, _environment(service.get("environment"))),
        )


def _pods(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Containers of a Kubernetes workload or pod."""
    spec = _mapping(document.get("spec"))
    for part in (spec, _mapping(_mapping(spec.get("template")).get("spec"))):
        containers = part.get("containers")
        for container in containers if isinstance(containers, list) else []:
            container = _mapping(container)
            words = [*_words(container.get("command")), *_words(container.get("args"))]
            listed = container.get("env")
            env = {
                _text(item.get("name")): _text(item.get("value"))
                for item in (listed if isinstance(listed, list) else [])
                if isinstance(item, Mapping) and item.get("value") is not None
            }
            yield _text(container.get("name")), _container(_text(container.get("image")), words, env)


def _container(image: str, words: Sequence[str], env: Mapping[str, str]) -> str:
    """A ``docker run`` of the image; a command that names the engine itself stands without it."""
    if words and _PROGRAM.fullmatch(words[0]):
        return shlex.join([*(f"{key}={value}" for key, value in env.items()), *words])
    settings = [word for key, value in env.items() for word in ("-e", f"{key}={value}")]
    return shlex.join(["docker", "run", *settings, image, *words])


def _models(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """llama-swap: ``models: NAME: cmd:``, with ``macros`` (github.com/mostlygeek/llama-swap)."""
    shared = _mapping(document.get("macros"))
    for name, model in _mapping(document.get("models")).items():
        model = _mapping(model)
        if not isinstance(model.get("cmd"), str):
            continue
        macros = {**shared, **_mapping(model.get("macros")), "MODEL_ID": name, "PORT": 5800}
        env = _environment(model.get("env"))
        line = " ".join(_uncommented(_filled(model["cmd"], macros)).split("\n"))
        yield str(name), " ".join([*(shlex.quote(f"{key}={value}") for key, value in env.items()), line])


def _filled(text: str, macros: Mapping[str, Any]) -> str:
    for _ in range(_MAX_ROUNDS):
        replaced = _MACRO.sub(lambda match: _text(macros.get(match[1]), match[0]), text)
        if replaced == text:
            break
        if len(replaced) > MAX_COMMAND_CHARS:
            raise UsageError("the macros make the command too long", where={"characters": len(replaced)})
        text = replaced
    return text


def _uncommented(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def _environment(value: object) -> dict[str, str]:
    """Variables as a mapping, or as a list of ``NAME=VALUE``; a bare name takes the caller's."""
    if isinstance(value, Mapping):
        return {str(key): _text(item) for key, item in value.items() if item is not None}
    if not isinstance(value, list):
        return {}
    pairs = (item.partition("=") for item in value if isinstance(item, str) and "=" in item)
    return {key: text for key, _, text in pairs}


def _words(value: object) -> list[str]:
    """A command as one string, split as a shell does, or as a list."""
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError as error:
            raise UsageError(
                f"the command cannot be split into words: {error}", where={"command": value[:200]}
            ) from error
    return [_text(item) for item in value] if isinstance(value, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object, default: str = "") -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else default
