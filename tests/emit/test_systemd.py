"""A unit: its command is the plan's by systemd's own quoting."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.emit.plans import of_checkpoint

from ropewalk.emit import emit
from ropewalk.errors import UsageError
from ropewalk.inspector.readers.hubsource import HubId
from ropewalk.planner.records import Plan

ODD = '/srv/my "models"/it\'s $HOME ${X} 100% %h \\n ; #'
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')


def words_of(line: str) -> list[str]:
    """The words of ExecStart by systemd.syntax(7) and systemd.service(5)."""
    words = []
    for quoted, plain in _WORD.findall(line.replace("\\\n", " ")):
        word = re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        assert re.fullmatch(r"(?:[^%$]|%%|\$\$)*", word)
        words.append(word.replace("%%", "%").replace("$$", "$"))
    return words


def command_of(unit: str) -> list[str]:
    """The words that ExecStart gives."""
    (line,) = re.findall(r"^ExecStart=((?:.*\\\n)*.*)", unit, re.MULTILINE)
    return words_of(line)


@pytest.mark.parametrize("checkpoint", ["/srv/Qwen3-8B", ODD])
def test_the_command_is_the_plan_s(single: Plan, checkpoint: str) -> None:
    plan = of_checkpoint(single, checkpoint)
    assert plan.launch is not None
    assert command_of(emit(plan, "systemd")) == ["/usr/bin/env", "vllm", *plan.launch.argv]


def test_a_unit_waits_for_the_model_and_is_started_anew(single: Plan) -> None:
    plan = of_checkpoint(single, "/srv/Qwen3-8B")
    assert plan.launch is not None
    plan = replace(plan, launch=replace(plan.launch, env={"X": '50% "of" $Y', "N": "4"}))
    lines = emit(plan, "systemd").splitlines()
    assert 'Environment="X=50%% \\"of\\" $Y"' in lines
    assert "Environment=N=4" in lines
    assert "EnvironmentFile=-%E/qwen3-8b.env" in lines
    assert "ExecStart=/usr/bin/env vllm serve /srv/Qwen3-8B \\" in lines
    assert "  --host 127.0.0.1 \\" in lines
    assert lines[lines.index("TimeoutStartSec=1800") :] == [
        "TimeoutStartSec=1800",
        "Restart=on-failure",
        "RestartSec=10",
        "NoNewPrivileges=yes",
        "LockPersonality=yes",
        "RestrictSUIDSGID=yes",
        "UMask=0077",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]


def test_a_relative_path_has_no_place_in_a_unit(single: Plan) -> None:
    plan = of_checkpoint(single, "models/Qwen3-8B")
    with pytest.raises(UsageError, match="absolute path of models/Qwen3-8B"):
        emit(plan, "systemd")
    plan = of_checkpoint(single, "Qwen/Qwen3-8B")
    unit = emit(plan, "systemd", hub=HubId("Qwen/Qwen3-8B", "main", None))
    assert "VLLM_API_KEY and HF_TOKEN: in ~/.config/qwen3-8b.env." in unit


@pytest.mark.extra
def test_systemd_takes_it(single: Plan, tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    unit = emit(of_checkpoint(single, ODD), "systemd")
    assert verified(program, unit, tmp_path) == ""
    wrong = unit.replace("Restart=on-failure", "Restart=on-fail")
    assert "Failed to parse service restart specifier" in verified(program, wrong, tmp_path)


def verified(program: str, unit: str, folder: Path) -> str:
    """What ``systemd-analyze verify`` says of the unit."""
    path = folder / "x.service"
    path.write_text(unit)
    words = [program, "--user", "--man=no", "--recursive-errors=no", "verify", str(path)]
    environment = {"XDG_RUNTIME_DIR": str(folder), "HOME": str(folder)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    return "".join(line for line in done.stderr.splitlines(keepends=True) if "x.service" in line)
