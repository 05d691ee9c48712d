from __future__ import annotations

import csv
import io
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from ropewalk.errors import RunStoreError
from ropewalk.measuring import store as module
from ropewalk.measuring.records import ArmResult, Measurement, Trial
from ropewalk.measuring.store import RunStore, this_process, trials_csv
from ropewalk.planner.records import RopeDecision
from ropewalk.serving.host.devices import Hardware

MACHINE = Hardware("Linux 6.1 x86_64", "a processor", 2, 8 * 2**30)
ROPE = RopeDecision("none", None, None, None, None, "within the trained context", "gguf")


def run(run_id: str = "20261130-1549-7f3a", **changes: object) -> Measurement:
    frame = Measurement(
        run_id=run_id,
        status="running",
        created="2026-11-30T15:49:00Z",
        finished=None,
        checkpoint="model.gguf",
        checkpoint_fingerprint="sha256:00",
        machine=MACHINE,
        target_len=12288,
        settings={"lengths": [2048], "arms": ["shipped"]},
        arms=(),
        comparison=None,
    )
    return replace(frame, **changes)  # type: ignore[arg-type]


def arm(name: str = "shipped") -> ArmResult:
    return ArmResult(name, "as shipped", None, ROPE, 8192, 8192, 1.5)


def trial(number: int, *, arm: str = "shipped", outcome: str = "hit", length: int = 2048) -> Trial:
    return Trial(
        key=f"key-{number}",
        arm=arm,
        task="niah_single",
        length=length,
        depth=number / 10,
        seed=1,
        prompt_sha256=f"sha-{number}",
        expected=("1234567",),
        answer=' "1234567",\n',
        outcome=outcome,  # type: ignore[arg-type]
        reported_tokens=length,
        cached_tokens=0 if number == 1 else length - 15,
        prefill_seconds=4.0,
        decode_tokens_per_second=40.0,
        found=1,
    )


def test_a_run_is_rebuilt_from_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "runs.sqlite3"
    with RunStore(path) as store:
        store.create(run())
        store.save_arm(run().run_id, arm(), position=0)
        for number, outcome in ((1, "hit"), (5, "miss"), (9, "invalid")):
            store.add_trial(run().run_id, trial(number, outcome=outcome))
        written = store.load(run().run_id)
    with RunStore(path) as store:  # another process, later
        again = store.load(run().run_id)
    assert again == written
    cells = again.arms[0].cells
    assert [(cell.depth, cell.hits, cell.outcomes) for cell in cells] == [
        (0.1, 1, {"hit": 1}),
        (0.5, 0, {"miss": 1}),
        (0.9, 0, {"invalid": 1}),
    ]
    assert (cells[2].low, cells[2].high, cells[2].score) == (None, None, None)  # invalid says nothing
    assert again.arms[0].speed[0].prefill_tokens_per_second == 512.0
    assert again.comparison is not None


def test_every_trial_is_on_disk_as_soon_as_it_is_added(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    writer = RunStore(path)
    writer.create(run())
    writer.add_trial(run().run_id, trial(1))
    with RunStore(path) as reader:  # the writer is still at work, and may be killed now
        assert reader.trials(run().run_id) == (trial(1),)
    writer.close()


def test_a_trial_of_the_same_key_replaces_the_older(tmp_path: Path) -> None:
    with RunStore(tmp_path / "runs.sqlite3") as store:
        store.create(run())
        store.add_trial(run().run_id, trial(1, outcome="error"))
        store.add_trial(run().run_id, trial(1))
        store.add_trial(run().run_id, trial(1, arm="unscaled"))
        assert [(one.arm, one.outcome) for one in store.trials(run().run_id)] == [
            ("shipped", "hit"),
            ("unscaled", "hit"),
        ]


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    with RunStore(tmp_path / "runs.sqlite3") as store:
        store.create(run("a-1", created="2026-11-29T10:00:00Z"))
        store.create(run("b-2", created="2026-11-30T10:00:00Z"))
        store.save_arm("a-1", arm(), position=0)
        store.add_trial("a-1", trial(1))
        store.update(run("b-2", created="2026-11-30T10:00:00Z", status="interrupted"))
        listed = store.runs()
    assert [(one.run_id, one.status, one.arms, one.trials) for one in listed] == [
        ("b-2", "interrupted", (), 0),
        ("a-1", "running", ("shipped",), 1),
    ]


def test_a_run_whose_process_is_gone_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The id may be another process's by now: only with its birth it names one."""
    path, here = tmp_path / "runs.sqlite3", this_process()
    with RunStore(path) as store:
        for name, owner in (
            ("alive", here),
            ("killed", replace(here, pid=2**22 + 1)),  # above pid_max of Linux
            ("id-taken", replace(here, start_time="1")),
            ("elsewhere", replace(here, host="another", pid=2**22 + 1)),
            ("beside", replace(here, space=f"{here.space}1", pid=2**22 + 1)),
            ("before", replace(here, space="0n1")),
        ):
            monkeypatch.setattr(module, "this_process", lambda owner=owner: owner)
            store.create(run(name))
        store.create(run("done"))
        store.update(run("done", status="finished"))
        listed = {one.run_id: one.status for one in store.runs()}
        assert listed == {
            "alive": "running",
            "killed": "interrupted",
            "id-taken": "interrupted",
            "elsewhere": "running",  # cannot be seen from here
            "beside": "running",  # in a container of this machine
            "before": "interrupted",  # the machine was started anew
            "done": "finished",
        }
        assert {name: store.load(name).status for name in listed} == listed
        assert store.owner("done") is None
        store._db.execute("UPDATE runs SET owner = NULL")  # of a version that noted none
        assert store.load("alive").status == "interrupted"


def test_a_run_is_found_by_a_beginning_that_is_unique(tmp_path: Path) -> None:
    with RunStore(tmp_path / "runs.sqlite3") as store:
        for name in ("20261130-1549-7f3a", "20261130-1600-0b1c", "2026"):
            store.create(run(name))
        assert store.find("20261130-15") == "20261130-1549-7f3a"
        assert store.find("last") == store.runs()[0].run_id
        assert store.find("2026") == "2026"
        with pytest.raises(RunStoreError, match="2 runs begin"):
            store.find("20261130")
        with pytest.raises(RunStoreError, match="no run begins") as caught:
            store.load("%")
    assert caught.value.code == "run_not_found"


def test_delete_forgets_everything_of_a_run(tmp_path: Path) -> None:
    with RunStore(tmp_path / "runs.sqlite3") as store:
        for name in ("a", "b"):
            store.create(run(name))
            store.save_arm(name, arm("yarn:1.5"), position=0)
            store.add_trial(name, trial(1))
        log = store.log_path("a", "yarn:1.5")
        log.parent.mkdir()
        log.write_text("loaded\n")
        store.delete("a")
        assert [one.run_id for one in store.runs()] == ["b"]
        assert store.trials("a") == ()
        assert not log.exists()
        with pytest.raises(RunStoreError):
            store.delete("a")


def test_csv_holds_a_line_per_trial() -> None:
    rows = list(csv.DictReader(io.StringIO(trials_csv([trial(1), trial(2)]))))
    assert [row["key"] for row in rows] == ["key-1", "key-2"]
    assert rows[0]["expected"] == "1234567"
    assert rows[0]["answer"] == ' "1234567",\n'


def test_a_locked_store_says_so(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    with RunStore(path, lock_seconds=0) as store:
        store.create(run())
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RunStoreError, match="locked") as caught:
            store.add_trial(run().run_id, trial(1))
        assert caught.value.where["store"] == str(path)
        other.execute("ROLLBACK")
        other.close()
        store.add_trial(run().run_id, trial(1))


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    path.write_bytes(b"not a database, but long enough to be read as one" * 100)
    with pytest.raises(RunStoreError, match="not a database"):
        RunStore(path)


def test_a_torn_store_is_an_error_not_a_traceback(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    with RunStore(path) as store:
        store.create(run())
        for number in range(200):
            store.add_trial(run().run_id, trial(number))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(RunStoreError, match="cannot be used"), RunStore(path) as store:
        store.trials(run().run_id)


def test_a_damaged_run_does_not_hide_the_others(tmp_path: Path) -> None:
    with RunStore(tmp_path / "runs.sqlite3") as store:
        for name in ("a-1", "b-2", "c-3"):
            store.create(run(name))
        other = sqlite3.connect(tmp_path / "runs.sqlite3")
        with other:
            other.execute("UPDATE runs SET record = '{\"run_id\": 5}' WHERE run_id = 'a-1'")
            other.execute("UPDATE runs SET owner = '[' WHERE run_id = 'b-2'")
        other.close()
        assert {one.run_id: one.status for one in store.runs()} == {
            "a-1": "unreadable", "b-2": "unreadable", "c-3": "running",
        }  # fmt: skip


def test_a_row_that_is_no_record_is_damage(tmp_path: Path) -> None:
    with RunStore(tmp_path / "runs.sqlite3") as store:
        store.create(run())
        other = sqlite3.connect(tmp_path / "runs.sqlite3")
        with other:
            other.execute("UPDATE runs SET record = '{\"run_id\": 5}'")
        other.close()
        with pytest.raises(RunStoreError, match="cannot be used"):
            store.load(run().run_id)


def test_a_folder_that_cannot_hold_it_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(RunStoreError) as caught:
        RunStore(blocked / "runs.sqlite3")
    assert caught.value.where["store"] == str(blocked / "runs.sqlite3")


def test_a_store_that_may_only_be_read_is_refused_when_written(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    with RunStore(path) as store:
        store.create(run())
        store._db.execute("PRAGMA query_only = ON")
        with pytest.raises(RunStoreError, match="readonly"):
            store.add_trial(run().run_id, trial(1))
        assert store.load(run().run_id).run_id == run().run_id


def test_a_store_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    RunStore(path).close()
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(RunStoreError, match="newer version"):
        RunStore(path)


def test_a_store_that_many_open_first_at_once_is_made_once(tmp_path: Path) -> None:
    for attempt in range(5):
        path, together = tmp_path / f"{attempt}.sqlite3", threading.Barrier(12)

        def first(number: int, path: Path = path, together: threading.Barrier = together) -> None:
            together.wait()
            with RunStore(path, lock_seconds=60.0) as store:
                store.create(run(f"20261130-1549-{number:04x}"))

        with ThreadPoolExecutor(12) as pool:
            list(pool.map(first, range(12)))
        with RunStore(path) as store:
            assert len(store.runs()) == 12


def test_an_older_store_is_migrated_with_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.sqlite3"
    with RunStore(path) as store:
        store.create(run())
    later = (*module.MIGRATIONS, ("ALTER TABLE runs ADD COLUMN note TEXT",))
    monkeypatch.setattr(module, "MIGRATIONS", later)
    with RunStore(path) as store:
        assert store.load(run().run_id) == run()
        assert store._rows("SELECT note FROM runs") == [(None,)]
