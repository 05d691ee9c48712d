"""Every page at every width: no number is broken, none is lost, no line is longer than the screen."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from tests.cli import records
from tests.cli.test_doctor import DOCTOR
from tests.cli.test_serve import CHECKS, DETACHED, FakeServer
from tests.inspector.made import inspect
from tests.planner.models import llama_8b
from tests.report.test_ranks import plan, two_nodes
from tests.serving.dry_run.models import FAMILIES

from ropewalk import core
from ropewalk.checking.log_report import LogReport, LogTerm
from ropewalk.engines import EngineName
from ropewalk.inspector.records import Inspection
from ropewalk.inspector.survey import CheckpointList, Listed
from ropewalk.measuring.run_pair import RunPair
from ropewalk.measuring.store import RunSummary
from ropewalk.planner.cache_summary import cache_summary
from ropewalk.planner.choice import Choice
from ropewalk.planner.choose import Target, choose
from ropewalk.planner.machine import Machine
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import PlanRequest
from ropewalk.report.check import check_page
from ropewalk.report.choose import choice_page
from ropewalk.report.doctor import doctor_page
from ropewalk.report.figures import plural
from ropewalk.report.folding import fold_tensors
from ropewalk.report.inspection import facts_page, inspection_page, list_page
from ropewalk.report.lines import lay
from ropewalk.report.log_report import logreport_page
from ropewalk.report.measurement import measurement_page
from ropewalk.report.page import Block, Verbatim, fields, lines_of, parts, table
from ropewalk.report.plan import plan_page
from ropewalk.report.rope import rope_page
from ropewalk.report.run_pair import runpair_page
from ropewalk.report.runs import runs_page
from ropewalk.report.serve import serve_page
from ropewalk.report.servers import servers_page
from ropewalk.report.tensors import tensors_page
from ropewalk.report.terminal import piped, plain
from ropewalk.report.terminal import records as rows_of
from ropewalk.serving.service import Service
from ropewalk.serving.verify import Verification
from ropewalk.units import GIB

WIDTHS = (60, 80, 120, 200)
_NUMBER = re.compile(r"\d[\d,.]*\d(?:e[-+]?\d+)?|\d")
_UNIT = re.compile(r"\d (?:[KMGT]iB|B per|tok/s|tokens/s)")
_PATH = re.compile(r"\S{50,}")
MODELS = (
    "Qwen3-8B", "DeepSeek-V3", "gpt-oss-20b", "Llama-4-Maverick", "Olmo-3-7B", "Nemotron-H-56B",
    "MiMo-V2-Flash",
)  # fmt: skip
RUN = records.smollm2_measurement()
LISTED = CheckpointList(
    "models",
    (
        Listed(
            "Qwen3-235B-A22B-Instruct-2507/UD-Q4_K_XL.gguf",
            "model",
            "gguf",
            "qwen3moe",
            "Q4_K",
            4.83,
            134_000_000_000,
        ),
        Listed("broken.gguf", error="it ends after 96 of 4,096 bytes"),
    ),
)
LOG = LogReport(
    log="vllm.log",
    engine="vllm",
    engine_version="0.33.0",
    command=("vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "131072"),
    command_from="log",
    lengths=(LogTerm("context_per_request", 131_072, 131_072, 131_072, 0, True),),
    memory=(LogTerm("kv_cache", 19_327_352_832, 19_327_352_832, 19_327_352_900, 512, True),),
    check=None,
    findings=(),
    ok=True,
)


def served() -> Service:
    """Qwen3-8B, verified."""
    seen = Verification(131_068, 372.4, 0.41, ())
    server: Any = FakeServer(KeyboardInterrupt())
    return Service(records.qwen3_plan(), CHECKS, server, seen, records.qwen3_plan().findings)


def chosen() -> Choice:
    """What holds 32k of one model on a card, every cache type."""
    engines: tuple[EngineName, ...] = ("vllm", "transformers")
    asked = [PlanRequest(32_768, engine, memory_bytes=24 * GIB) for engine in engines]
    targets = [Target(request, Machine("gpu")) for request in asked]
    return choose([records.qwen3_8b()], targets, device="a device of 24.00 GiB")


@cache
def pages() -> dict[str, Block]:
    summary = RunSummary(
        RUN.run_id, "finished", RUN.created, RUN.checkpoint, 12288, ("shipped", "yarn:1.5"), 45
    )
    searched = plan(llama_8b(), 131_072, num_sequences=4, memory_bytes=24 * GIB, gpus_per_node=2, fit="nodes")
    return {
        "inspection": inspection_page(records.lying(), kept=cache_summary(records.qwen3_8b())),
        "facts": facts_page(records.qwen3_8b()),
        "plan": plan_page(records.qwen3_plan(), sources=True),
        "too large": plan_page(records.too_large()),
        "nodes": plan_page(two_nodes()),
        "search": plan_page(searched),
        "rope": rope_page(records.qwen3_rope(), all_pairs=True),
        "measurement": measurement_page(RUN),
        "two runs": runpair_page(RunPair(RUN, replace(RUN, run_id="b"), (), ())),
        "runs": runs_page([summary]),
        "serve": serve_page(served(), stop="Ctrl-C"),
        "doctor": doctor_page(DOCTOR),
        "choose": choice_page(chosen(), explain=True),
        "list": list_page(LISTED),
        "servers": servers_page([DETACHED]),
        "log": logreport_page(LOG),
        "check": check_page(core.check("vllm serve Qwen/Qwen3-8B --max-model-len 131072 --swap-space 4")),
    }


def held(page: Block, width: int) -> None:
    """Every number of the description is whole on the page, and beside its unit."""
    text = plain(page, width)
    shown = set(_NUMBER.findall(text))
    lines = text.splitlines()
    for said in lines_of(page):
        if not _PATH.search(said):  # a path or command longer than a line is broken somewhere
            assert set(_NUMBER.findall(said)) <= shown, (width, said)
        for unit in _UNIT.findall(said):
            assert unit.strip() in text
    verbatim = {line for block in _verbatims(page) for line in block.splitlines()}
    for line in lines:
        assert cell_len(line) <= width or line in verbatim, (width, line)
    narrow = [line for line in lines if len(line.split()) == 1 and len(line.strip()) == 1]
    assert len(narrow) < 3, (width, narrow)  # a letter a line


def _verbatims(page: Block) -> list[str]:
    match page:
        case Verbatim():
            return [page.text]
        case _:
            inner = getattr(page, "blocks", ())
            return [text for block in inner for text in _verbatims(block)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", list(pages()))
def test_every_page_at_every_width(name: str, width: int) -> None:
    held(pages()[name], width)


@pytest.mark.parametrize("model", MODELS)
def test_pages_of_published_models(shared: Path, model: str) -> None:
    path = next((shared / "corpus" / "configs").glob(f"*{model}*.json"))
    inspection: Inspection = inspect(json.loads(path.read_text()))
    described: list[Block] = [
        inspection_page(inspection, kept=cache_summary(inspection)),
        facts_page(inspection),
    ]
    if inspection.value("hidden_size"):
        request = PlanRequest(131_072, "vllm", num_sequences=2, memory_bytes=24 * GIB)
        described.append(plan_page(make_plan(inspection, request)))
    for width in WIDTHS:
        for page in described:
            held(page, width)


def test_the_tensors_of_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "qwen3moe.gguf"
    FAMILIES["qwen3moe"](path)
    checkpoint = core.open_checkpoint(path)
    page = tensors_page(checkpoint, fold_tensors(checkpoint.tensors, range(len(checkpoint.tensors))))
    for width in WIDTHS:
        held(page, width)


words = st.text("abc /0123456789.,–", min_size=1, max_size=70)


@given(st.lists(st.lists(words, min_size=3, max_size=3), min_size=1, max_size=4), st.integers(40, 120))
def test_no_table_loses_a_number(rows: list[list[str]], width: int) -> None:
    page = fields([("label", table("name | >amount | *what", rows)), ("more", parts(*rows[0]))])
    squeezed = "".join("".join(str(line).split()) for line in lay(page, width))
    for row in rows:
        for cell in row:
            for number in _NUMBER.findall(cell):
                assert number in squeezed
    assert all(cell_len(str(line).rstrip()) <= width for line in lay(page, width))


def test_a_pipe_gets_a_record_a_line() -> None:
    """Names whole, fields apart by tabs, and what a record says has its unit."""
    lines = list(rows_of(plan_page(records.qwen3_plan())))
    assert "KV cache\t18.00 GiB\tengine rule" in lines
    rows = [["a\tb\nc", "1 B", "x" * 300]]
    assert list(rows_of(table("name | >size | *what", rows))) == [
        "name\tsize\twhat",
        f"a b c\t1 B\t{'x' * 300}",
    ]


@pytest.mark.parametrize("name", list(pages()))
def test_no_page_is_wrapped_for_a_pipe(name: str) -> None:
    """Each row of each table is one line, whatever stands around the table."""
    page = pages()[name]
    lines = piped(page).splitlines()
    for record in rows_of(page):
        assert any(line.rstrip().endswith(record.rstrip()) for line in lines), record


def test_plurals() -> None:
    assert [plural(count, "shard") for count in (0, 1, 2, 1024)] == [
        "0 shards", "1 shard", "2 shards", "1,024 shards",
    ]  # fmt: skip
