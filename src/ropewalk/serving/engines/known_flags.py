"""The flags that a build says it knows, from its own ``--help``; asked once per build and kept on disk."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from ropewalk.engines import EngineBuild
from ropewalk.serving.engines import adapter_of
from ropewalk.serving.engines.find import finder_of, run

_MIN_FLAGS = 20  # a help with fewer flags than any server has was not understood
_FLAG = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)")


def known_flags(build: EngineBuild) -> frozenset[str] | None:
    """Every spelling that the build takes; None where it does not say.

    vLLM needs ten seconds to say it, so that the answer is kept under the user's cache folder until the
    program changes.
    """
    finder = finder_of(build.engine)
    if (own := finder.own_flags(build)) is not None:
        return own
    kept = _kept_at(build)
    if kept.is_file():
        return frozenset(json.loads(kept.read_text()))
    said = run([*adapter_of(build.engine).program(build), *finder.HELP]) or ""
    flags = flags_in(said.splitlines())
    if len(flags) < _MIN_FLAGS:
        return None
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(sorted(flags)))
    return flags


def unknown_flags(argv: Iterable[str], known: frozenset[str]) -> tuple[str, ...]:
    """Words that look like flags and are not known."""
    return tuple(word for word in argv if _FLAG.fullmatch(word) and word not in known)


def flags_in(help_lines: Iterable[str]) -> frozenset[str]:
    """Flags at the start of a help's lines: ``-c,    --ctx-size N``, ``--kv-unified, -kvu,``. Those that a
    description mentions do not count."""
    found: set[str] = set()
    for line in help_lines:
        head = re.split(r"\s{2,}(?=[^\s-])", line.strip(), maxsplit=1)[0]
        if head.startswith("-"):
            found.update(_FLAG.findall(head))
    return frozenset(found)


def _kept_at(build: EngineBuild) -> Path:
    from platformdirs import user_cache_path

    changed = Path(build.path).stat().st_mtime_ns
    state = f"{build.path}\n{changed}\n{build.version}"
    name = f"{build.engine}-{hashlib.sha256(state.encode()).hexdigest()[:16]}.json"
    return user_cache_path("ropewalk") / "flags" / name
