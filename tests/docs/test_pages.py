"""The hand-written pages: links lead somewhere, names exist, figures are those of the code."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from subprocess import run

import pytest
from docs.messages import messages
from tests.planner.models import deepseek_v3, gemma3_27b, qwen3_8b, qwen3_next_80b

import ropewalk
from ropewalk.inspector.records import Inspection
from ropewalk.measuring.compare import CERTIFYING_TRIALS
from ropewalk.measuring.recall.statistics import smallest_detectable_drop, sprt, wilson
from ropewalk.measuring.recall.tasks import TASKS
from ropewalk.measuring.records import JUDGED
from ropewalk.planner import weights
from ropewalk.planner.engines import llama_memory, llama_server, transformers, vllm_estimates
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import PlanRequest
from ropewalk.units import GIB, KIB, MIB

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("errors/*.md")])


def text(name: str) -> str:
    return (DOCS / f"{name}.md").read_text("utf-8")


def anchors(page: Path) -> set[str]:
    """The anchors that Python-Markdown gives to the headings of a page."""
    without_code = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", without_code, flags=re.MULTILINE)
    slugs = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"[-\s]+", "-", slug) for slug in slugs}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        linked = page.parent / name if name else page
        assert linked.is_file(), target
        assert not anchor or anchor in anchors(linked), target


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"([\w/]+\.md)", (ROOT / "mkdocs.yml").read_text("utf-8"))
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in PAGES)


def test_files_and_modules_that_pages_name_exist() -> None:
    source = ROOT / "src" / "ropewalk"
    named = re.findall(r"`((?:inspector|planner|serving)/[\w/]+(?:\.py|/))", text("design") + text("terms"))
    assert len(named) > 15
    assert not [name for name in named if not (source / name).exists()]


@pytest.mark.parametrize("engine", ["llama_server", "vllm", "transformers"])
def test_every_term_of_an_engine_is_explained(engine: str) -> None:
    title = {"llama_server": "llama-server", "vllm": "vLLM", "transformers": "transformers"}[engine]
    section = text("terms").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    folder = ROOT / "src" / "ropewalk" / "planner" / "engines"
    code = "".join(path.read_text("utf-8") for path in folder.glob(f"{engine.partition('_')[0]}*.py"))
    terms = set(re.findall(r'(?:exact|estimate|MemoryTerm)\(\s*"(\w+)"', code)) | {"weights"}
    assert len(terms) >= 5
    assert not {term for term in terms if f"`{term}`" not in section}


def test_figures_of_the_terms() -> None:
    terms = text("terms")
    ranges = vllm_estimates._ALONE, vllm_estimates._ALONE_OLD, vllm_estimates._SHARDS, vllm_estimates._STAGES
    for low, _, high in (*ranges, vllm_estimates._SHARDS_NVLINK):
        assert f"{low / KIB:.2f} to {high / KIB:.2f}" in terms
    assert f"{llama_memory._PROCESS_SPREAD // MIB} MiB to either side" in terms
    assert f"{llama_memory._INTERPRETER // MIB} MiB more" in terms
    assert f"{transformers._AT_REST // MIB} MiB seen at rest" in terms
    low, _, high = transformers._CPU_PROCESS
    assert f"{low // MIB} MiB to {high / GIB:.2f} GiB" in terms
    (low, high), (fewest, _) = weights._ESTIMATED, weights._WITH_EXPERTS
    assert f"{low} to {high} %, with experts from {fewest} %" in text("exactness")
    low, high = weights._COUNTED
    assert f"{low} to {high} % for the {len(weights._COUNTED_TYPES)} types" in text("exactness")


def test_every_task_and_outcome_is_explained() -> None:
    recall = text("recall")
    assert not {name for name in TASKS if f"`{name}`" not in recall}
    judged = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", recall, flags=re.MULTILINE))
    assert {name for name, counts in judged.items() if counts != "not judged"} == JUDGED


def test_figures_of_the_recall_page() -> None:
    interval = wilson(5, 5)
    assert interval is not None
    assert [round(100 * end) for end in interval] == [57, 100]
    assert (sprt(14, 0), sprt(15, 0), sprt(0, 2), sprt(0, 3)) == ("open", "pass", "open", "fail")
    assert (smallest_detectable_drop(30), smallest_detectable_drop(60)) == (0.35, 0.2)
    eleven, twelve = wilson(11, 11), wilson(12, 12)
    assert eleven is not None
    assert twelve is not None
    assert eleven[0] < 0.75 <= twelve[0]
    assert CERTIFYING_TRIALS == 30


@pytest.mark.parametrize(
    ("model", "stated"),
    [(qwen3_8b(), 18.00), (deepseek_v3(), 8.58), (gemma3_27b(), 10.41), (qwen3_next_80b(), 3.00)],
)
def test_figures_of_the_comparison(model: Inspection, stated: float) -> None:
    request = PlanRequest(131_072, "llama-server")
    estimated = llama_server.memory_model(
        PlanningCase(shape_of(model), request, Machine(kind="cpu"))
    ).estimate_memory(131_072, 1)
    assert round(estimated.kv.logical_bytes / GIB, 2) == stated
    (line,) = re.findall(r"^\| ropewalk,.*$", text("comparison"), flags=re.MULTILINE)
    assert f" {stated:.2f} |" in line


def test_names_of_the_python_page_are_public() -> None:
    page = text("python")
    named = set(re.findall(r"ropewalk\.([a-z]\w*)\(", page))
    named |= set(re.findall(r"^[├└│─ ]*(\w+Error)\b", page, flags=re.MULTILINE))
    named |= set(re.findall(r"^\| `(\w+)", page, flags=re.MULTILINE))
    assert len(named) >= 16
    assert named <= set(ropewalk.__all__)


def test_a_message_is_the_title_of_its_page_and_its_command_finds_it() -> None:
    pages = {page.stem: page.read_text("utf-8") for page in DOCS.glob("errors/*.md")}
    assert pages.keys() == messages().keys()
    for name, message in messages().items():
        assert f"\n# {message['title']}\n" in pages[name]
        assert all(f"\n{wording}\n" in pages[name] for wording in message["also"])
        assert message["finds"] in pages[name].rpartition("```text\n")[2]


@pytest.mark.parametrize(
    ("pasted", "name"),
    [
        ("No available memory for the cache blocks", "no_memory_for_cache_blocks"),
        ("larger than the maximum number of tokens that can be stored in KV cache", "kv_cache_too_small"),
        ("exceeds the training context of the model", "context_over_trained"),
        ("CUDA error: out of memory", "cudamalloc_out_of_memory"),
    ],
)
def test_a_pasted_message_is_on_one_page_alone(pasted: str, name: str) -> None:
    worded = {one: [said["title"], *said["also"]] for one, said in messages().items()}
    assert [one for one, words in worded.items() if any(pasted in word for word in words)] == [name]


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    if find_spec("mkdocs") is None:
        pytest.skip("the dependency group `docs` is not installed")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "recall" / "index.html").is_file()
