"""The JSON Schema of every record is committed and current.

``python tests/test_schemas.py`` writes ``docs/schemas`` anew after a record has changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ropewalk.checking.log_report import LogReport
from ropewalk.checking.receipts import Receipts
from ropewalk.checking.records import CheckResult
from ropewalk.differences import Differences
from ropewalk.doctor import Doctor
from ropewalk.documents import RunList, ServerList, TensorList
from ropewalk.inspector.records import Inspection
from ropewalk.inspector.survey import CheckpointList
from ropewalk.jsonio import schema_of
from ropewalk.lab.records import Attention, Kernels
from ropewalk.measuring.records import Measurement
from ropewalk.measuring.run_pair import RunPair
from ropewalk.planner.choice import Choice
from ropewalk.planner.records import Plan
from ropewalk.planner.rope.table import RopeTable
from ropewalk.serving.engines.llama_cpp.bake import Baked
from ropewalk.serving.process.detached import DetachedServer

FOLDER = Path(__file__).parents[1] / "docs" / "schemas"
RECORDS: dict[str, type[Any]] = {
    "inspection": Inspection,
    "checkpoints": CheckpointList,
    "tensors": TensorList,
    "rope": RopeTable,
    "plan": Plan,
    "choice": Choice,
    "comparison": Differences,
    "check": CheckResult,
    "server": DetachedServer,
    "servers": ServerList,
    "measurement": Measurement,
    "runs": RunList,
    "doctor": Doctor,
    "bake": Baked,
    "logreport": LogReport,
    "receipts": Receipts,
    "runpair": RunPair,
    "attention": Attention,
    "kernels": Kernels,
}


def rendered(record: type[Any]) -> str:
    return json.dumps(schema_of(record), indent=2) + "\n"


@pytest.mark.parametrize("name", RECORDS)
def test_the_committed_schema_is_current(name: str) -> None:
    committed = FOLDER / f"{name}.json"
    assert committed.read_text() == rendered(RECORDS[name]), "run: python tests/test_schemas.py"


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_names_its_schema(name: str) -> None:
    default = schema_of(RECORDS[name])["properties"]["schema"]["default"]
    assert default == f"ropewalk.{name}/1"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, record in RECORDS.items():
        (FOLDER / f"{name}.json").write_text(rendered(record))
