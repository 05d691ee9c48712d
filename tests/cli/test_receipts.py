"""``receipts``: numbers of a log and its plan, and nothing that names anybody."""

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
COMMAND = "llama-server -m /home/somebody/secret.gguf --alias mine --port 8123 -c 8192 -np 4 -cram 0"


def test_numbers_alone(tmp_path: Path, invoke: Invoke) -> None:
    path = tmp_path / "somebody.log"
    path.write_text(LOG)
    outcome = invoke("receipts", str(path), str(path), "--command", COMMAND)
    assert outcome.status == 0
    for private in ("somebody", "secret", "mine", "8123", str(tmp_path)):
        assert private not in outcome.out
    data = json.loads(outcome.out)
    assert data["schema"] == "ropewalk.receipts/1"
    first, second = data["rows"]
    assert first == second
    assert first["engine"] == "llama-server"
    printed = {term["name"]: term["printed"] for term in first["terms"]}
    assert (printed["context_per_request"], printed["kv_cells"]) == (2048, 8192)
    assert printed["kv_cache"] == 180 * 2**20
    assert 8192 in first["settings"].values()


def test_no_log_is_wrong_usage(tmp_path: Path, invoke: Invoke) -> None:
    assert invoke("receipts", str(tmp_path / "none.log")).status == 2
    assert invoke("receipts").status == 2
