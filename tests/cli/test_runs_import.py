"""``runs import``: its page, its record, its exit statuses."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Invoke

LOG = """\
llama_context: n_seq_max             = 4
llama_context: n_ctx                 = 8192
llama_context: n_ctx_seq             = 2048
llama_kv_cache:        CPU KV buffer size =   180.00 MiB
"""
COMMAND = "llama-server -m none.gguf -c 8192 -np 4 -cram 0 -ctxcp 0"


def test_the_page_and_the_record(tmp_path: Path, invoke: Invoke) -> None:
    path = tmp_path / "server.log"
    path.write_text(LOG)
    outcome = invoke("runs", "import", str(path), "--command", COMMAND)
    assert outcome.status == 0
    assert outcome.out.startswith("AS PLANNED")
    assert "sequences at once" in outcome.out
    data = json.loads(invoke("runs", "import", str(path), "--command", COMMAND, "--json").out)
    assert data["schema"] == "ropewalk.logreport/1"
    assert [one["printed"] for one in data["lengths"]] == [2048, 4, 8192]


def test_a_server_that_is_not_what_was_typed_exits_with_1(tmp_path: Path, invoke: Invoke) -> None:
    path = tmp_path / "server.log"
    path.write_text(LOG)
    outcome = invoke("runs", "import", str(path), "--command", COMMAND.replace("-np 4", "-np 2"))
    assert outcome.status == 1
    assert "num_sequences: 2 planned, 4 printed" in outcome.out


def test_no_log_is_wrong_usage_and_no_model_an_unread_checkpoint(tmp_path: Path, invoke: Invoke) -> None:
    path = tmp_path / "server.log"
    assert invoke("runs", "import", str(path), "--json").status == 2
    path.write_text(LOG)
    assert invoke("runs", "import", str(path), "--command", "ls").status == 2
    assert invoke("runs", "import", str(path), "--checkpoint", str(tmp_path / "none")).status == 3
    assert "LOGFILE" in invoke("runs", "import", "--help").out
