"""Local paths stay inside the named folders, whatever a name or a link says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.api.conftest import CONFIG
from tests.cli import records

from ropewalk.api.problems import RefusedError
from ropewalk.api.sources import KEPT, KEPT_SECONDS, InspectionCache, Sources, stamp_of
from ropewalk.errors import CheckpointMissingError
from ropewalk.inspector.records import Inspection


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder of models beside a folder that is nobody's business."""
    for name in ("models/a", "models/org/name", "private", "models-too"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path / "models"


def test_names_are_looked_for_in_each_folder(models: Path) -> None:
    sources = Sources([models, models.parent / "models-too"], hub=False)
    assert sources.address("a") == str(models / "a")
    assert sources.address("a/config.json") == str(models / "a" / "config.json")
    assert sources.address(str(models.parent / "models-too")) == str(models.parent / "models-too")
    assert sources.address("org/name") == str(models / "org" / "name")
    assert sources.inspect("a").checkpoint.source == str(models / "a")
    assert sources.open("a/config.json").format == "config"


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../private",
        "a/../../private",
        "{top}/private",
        "{top}/private/config.json",
        "{top}/models-too",  # begins like the folder's own name
        "{top}/nothing/at/all",  # whether it exists is not told
        "/etc/passwd",
        "/",
    ],
)
def test_what_lies_elsewhere_is_refused(name: str, models: Path) -> None:
    sources = Sources([models], hub=False)
    given = name.format(top=models.parent)
    for ask in (sources.address, sources.open, sources.inspect, sources.file):
        with pytest.raises(RefusedError) as raised:
            ask(given)
        assert (raised.value.http_status, raised.value.code) == (403, "path_not_allowed")
    assert sources.inspect_if_allowed(given) is None


def test_links_out_of_the_folder_are_refused(models: Path) -> None:
    (models / "folder").symlink_to(models.parent / "private")
    (models / "b").mkdir()
    (models / "b" / "config.json").symlink_to(models.parent / "private" / "config.json")
    (models / "round").symlink_to(models / "round")
    sources = Sources([models], hub=False)
    for name in ("folder", "folder/config.json", "b/config.json", "a/../folder"):
        with pytest.raises(RefusedError):
            sources.address(name)
    with pytest.raises(CheckpointMissingError):
        sources.address("round")
    also = Sources([models, models.parent / "private"], hub=False)
    assert also.address("folder") == str(models.parent / "private")


def test_a_snapshot_of_the_hubs_cache_keeps_its_file_names(models: Path) -> None:
    cache = models / "models--org--name"
    snapshot = cache / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (cache / "blobs").mkdir()
    (cache / "blobs" / "abc").write_text(json.dumps(CONFIG))
    (snapshot / "config.json").symlink_to("../../blobs/abc")
    sources = Sources([models], hub=False)
    name = "models--org--name/snapshots/0123/config.json"
    assert sources.address(name) == str(snapshot / "config.json")
    assert sources.inspect(name).value("num_hidden_layers") == 36


def test_hub_ids_only_where_they_are_allowed(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of that name where the service happens to run is neither a local checkpoint nor a Hub id."""
    (models.parent / "Qwen" / "Qwen3-8B").mkdir(parents=True)
    monkeypatch.chdir(models.parent)
    assert Sources([models], hub=True).address("Qwen/Qwen3-8B") == "Qwen/Qwen3-8B"
    assert Sources([models], hub=True).address("org/name") == str(models / "org" / "name")
    with pytest.raises(CheckpointMissingError):
        Sources([models], hub=False).address("Qwen/Qwen3-8B")
    with pytest.raises(CheckpointMissingError):
        Sources([models], hub=True).file("Qwen/Qwen3-8B")
    assert Sources([models], hub=True).inspect_if_allowed("Qwen/Qwen3-8B") is None
    with pytest.raises(RefusedError, match="named by --models-dir, and Hub ids are allowed by --hub"):
        Sources([], hub=False).address("Qwen/Qwen3-8B")


def test_a_hub_id_is_never_a_folder_where_the_service_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offline, so that the Hub's cache answers: 36 layers, in the folder 12."""
    commit = "0" * 40
    cached = tmp_path / "cache" / "models--Qwen--Qwen3-8B"
    for folder, layers in ((cached / "snapshots" / commit, 36), (tmp_path / "Qwen" / "Qwen3-8B", 12)):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": layers}))
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    inspection = Sources([], hub=True).inspect("Qwen/Qwen3-8B")
    assert inspection.value("num_hidden_layers") == 36
    assert inspection.checkpoint.source == "Qwen/Qwen3-8B"


def test_names_that_are_none(models: Path) -> None:
    sources = Sources([models], hub=True)
    for name in ("", "a\0b"):
        with pytest.raises(RefusedError) as raised:
            sources.address(name)
        assert raised.value.http_status == 422
    with pytest.raises(CheckpointMissingError):
        sources.address("x" * 5000)


def test_an_inspection_is_kept_while_the_files_are_the_same(models: Path) -> None:
    sources = Sources([models], hub=False)
    first = sources.inspect("a")
    assert sources.inspect("a") is first
    (models / "a" / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": 12}))
    assert sources.inspect("a").value("num_hidden_layers") == 12
    stamp = stamp_of(str(models / "a"))
    (models / "a" / "model.safetensors").touch()
    assert stamp_of(str(models / "a")) != stamp


def test_the_oldest_is_forgotten_and_everything_after_a_while() -> None:
    now = 0.0
    kept = InspectionCache(clock=lambda: now)
    made: list[str] = []

    def get(name: str) -> Inspection:
        def make() -> Inspection:
            made.append(name)
            return records.qwen3_8b()

        return kept.get(name, (), make)

    assert get("x") is get("x")
    now = KEPT_SECONDS
    get("x")
    assert made == ["x", "x"]
    for number in range(KEPT):
        get(str(number))
    get("x")
    get(str(KEPT - 1))
    assert made.count("x") == 3
    assert made.count(str(KEPT - 1)) == 1


def test_readers_of_the_hub_are_few(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads from the Hub must not take the threads of those who read local files."""
    sources, refusals = Sources([models], hub=True), []

    def reading(name: str, *args: object, **options: object) -> object:
        try:
            return sources.open("other/model")
        except RefusedError as error:
            refusals.append(error)
            raise

    monkeypatch.setattr("ropewalk.api.sources.open_hub", reading)
    with pytest.raises(RefusedError, match="4 requests are reading from the Hub"):
        sources.open("org/model")
    assert (refusals[0].http_status, refusals[0].code) == (503, "hub_busy")
    with pytest.raises(RefusedError):  # all of them have given their place back
        sources.open("org/model")
    assert len(refusals) == 8
