"""``import ropewalk``: exactly its names, nothing imported before it is asked for, records as pages."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, cast

import pytest
from tests.cli import records
from tests.lab import tiny

import ropewalk
from ropewalk import core
from ropewalk.pages import Paged
from ropewalk.report.notebook import PAGES, record_html

DOCS = Path(__file__).parents[1] / "docs"
FUNCTIONS = ("inspect", "plan", "choose", "check", "serve", "measure", "attend")
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4096, "head_dim": 128,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 151936,
    "intermediate_size": 12288, "max_position_embeddings": 40960, "rope_theta": 1000000,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_names_are_those_of_the_stub() -> None:
    assert sorted(ropewalk.__all__) == ropewalk.__all__ == dir(ropewalk)
    for name in ropewalk.__all__:
        assert getattr(ropewalk, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'inspekt'"):
        ropewalk.inspekt  # type: ignore[attr-defined]  # noqa: B018
    assert int(python("from ropewalk import *; print(len([name for name in dir() if name[0] != '_']))")) == (
        len(ropewalk.__all__) - 1  # less __version__
    )


def test_the_functions_are_the_cores() -> None:
    for name in FUNCTIONS:
        assert getattr(ropewalk, name) is getattr(core, name)


def test_importing_imports_nothing() -> None:
    code = "import sys; before = set(sys.modules); import ropewalk; print(*sorted(set(sys.modules) - before))"
    loaded = set(python(code).split())
    assert {name for name in loaded if name.startswith("ropewalk")} == {"ropewalk", "ropewalk._version"}
    heavy = {"dataclasses", "asyncio", "pydantic", "rich", "click", "fastapi", "httpx2", "json"}
    assert loaded.isdisjoint(heavy)


def test_asking_for_one_function_does_not_load_the_others() -> None:
    code = "import sys, ropewalk; ropewalk.inspect; print(*sys.modules)"
    loaded = set(python(code).split())
    assert loaded.isdisjoint({"rich", "pydantic", "ropewalk.planner.records", "ropewalk.checking"})


def test_errors_are_caught_under_the_public_names(tmp_path: Path) -> None:
    with pytest.raises(ropewalk.CheckpointMissingError) as raised:
        ropewalk.inspect(tmp_path / "nothing")
    assert isinstance(raised.value, ropewalk.CheckpointError | ropewalk.RopewalkError)


def test_the_example_of_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "Qwen3-8B").mkdir()
    (tmp_path / "Qwen3-8B" / "config.json").write_text(json.dumps(CONFIG))
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "python.md").read_text()
    code, shown = re.findall(r"```(?:python|text)\n(.*?)```", text, re.DOTALL)[:2]
    assert code.count("\n") <= 6
    exec(compile(code, "docs/python.md", "exec"), {})
    assert capsys.readouterr().out == shown


def test_check_takes_words_or_one_string(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    words = ["vllm", "serve", str(tmp_path), "--max-model-len", "131072"]
    result = ropewalk.check(words)
    assert result == ropewalk.check(" ".join(words))
    assert result.resolved.trained_context == 40960  # the model was read, as it is here
    elsewhere = ropewalk.check("vllm serve Qwen/Qwen3-8B --max-model-len 131072", checkpoint=tmp_path)
    assert elsewhere.resolved.trained_context == 40960
    unread = ropewalk.check("vllm serve Qwen/Qwen3-8B")
    assert "checkpoint_not_read" in [finding.code for finding in unread.findings]


def test_attention_without_its_extra_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ropewalk.EngineMissingError, match=r'pip install "ropewalk\[lab\]"') as caught:
        ropewalk.attend("model", prompt="The cat sat.")
    assert (caught.value.code, caught.value.where) == ("extra_missing", {"module": "torch"})


@pytest.mark.extra
def test_attention_from_python_is_the_record_and_shows_as_its_page(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = tiny.write(tmp_path / "tiny-llama", tiny.LLAMA)
    seen = ropewalk.attend(folder, tokens=tiny.TOKENS, layer=1, head=3)
    assert (seen.ok, seen.layer, seen.head, seen.kv_head) == (True, 1, 3, 1)
    assert "layer 1, head 3" in record_html(seen)
    with pytest.raises(ropewalk.UsageError, match="and not both"):
        ropewalk.attend(folder)
    with pytest.raises(ropewalk.UsageError, match="and not both"):
        ropewalk.attend(folder, prompt="a", tokens=tiny.TOKENS)


def test_rope_without_a_length_is_at_the_trained_one(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert core.rope(tmp_path).context_len == 32768
    unknown = replace(records.qwen3_8b(), facts={})
    with pytest.raises(ropewalk.UsageError, match="give a context length"):
        core.rope(unknown)


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        (records.qwen3_8b(), "8,190,735,360 parameters"),
        (records.qwen3_plan(), "YaRN factor 4.0 from 32,768"),
        (ropewalk.check("vllm serve Qwen/Qwen3-8B --max-model-len 32768"), "OK"),
        (records.smollm2_measurement(), "5 of 5"),
    ],
)
def test_a_record_shows_as_its_page(record: Any, shown: str) -> None:
    assert str(record).count("\n") > 3
    html = record._repr_html_()
    assert html == record_html(record)
    assert html.startswith("<pre style=")
    assert html.endswith("</pre>")
    assert len(html) < 40_000


def test_every_result_has_a_page() -> None:
    results = [signature(getattr(core, name)).return_annotation for name in FUNCTIONS if name != "serve"]
    assert sorted(results) == sorted(PAGES)
    for name in PAGES:
        assert issubclass(getattr(ropewalk, name), Paged)


def test_nothing_in_a_page_is_markup() -> None:
    evil = "<script>alert(1)</script>&\"'"
    plan = records.qwen3_plan()
    launch = plan.launch
    assert launch is not None
    command = shlex.join(["vllm", "serve", "x" * 200, evil])
    plan = replace(plan, checkpoint=evil, launch=replace(launch, command=command))
    html = record_html(plan)
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "x" * 200 in html  # a command is never cut
    inspection = records.lying()
    summary = replace(inspection.checkpoint, source=evil)
    assert "<script" not in record_html(replace(inspection, checkpoint=summary))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("plan", {"context_len": 4096, "store": 3}),
        ("plan", {"context_len": 4096, "host": 3}),
        ("plan", {"context_len": 4096, "node_addresses": 3}),
        ("measure", {"context_len": 4096, "store": 3}),
        ("attend", {"tokens": 3}),
    ],
)
def test_what_is_no_option_of_a_page_is_looked_at_too(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ropewalk.UsageError) as raised:
        getattr(ropewalk, name)("model", **options)
    assert raised.value.where["value"] == 3
    with pytest.raises(ropewalk.UsageError, match="machine must be"):
        ropewalk.check("vllm serve m", machine=cast("Any", 3))
