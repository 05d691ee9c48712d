"""Repositories on the Hub: which requests are made, what each refusal means, what the cache is for."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.inspector.readers.files import (
    GgufWriter,
    TensorSpec,
    safetensors_bytes,
    write_json,
    write_sharded,
    write_tensors,
)
from tests.inspector.readers.hub_server import COMMIT, Hub, serve

from ropewalk.cli.app import run
from ropewalk.errors import CheckpointError, CheckpointMissingError, HubError
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.readers.hub import HubClient
from ropewalk.inspector.readers.hubsource import HubId, parse_hub_id

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"
SHARDS: dict[str, list[TensorSpec]] = {FIRST: [("a", "BF16", (4, 4))], SECOND: [("b", "BF16", (4, 4))]}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, which nobody waits for."""
    waited: list[float] = []
    monkeypatch.setattr(HubClient, "_wait", lambda self, seconds: waited.append(seconds))
    return waited


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "published"
    folder.mkdir()
    write_json(folder / "config.json", {"model_type": "llama"})
    return write_sharded(folder, SHARDS)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    return cache


@pytest.fixture
def hub(folder: Path, cache: Path, waits: list[float], monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(cache / "no-token"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    # Loading the certificates takes longer than all the rest, and no test speaks TLS.
    monkeypatch.setattr("ssl.SSLContext.load_verify_locations", lambda *args, **options: None)
    with serve(Hub({"org/model": folder})) as hub:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.address)
        yield hub


def refused(kind: type[CheckpointError], code: str, source: str = "org/model") -> CheckpointError:
    with pytest.raises(kind) as caught:
        open_checkpoint(source)
    assert caught.value.code == code
    return caught.value


def test_the_same_as_the_local_folder(hub: Hub, folder: Path) -> None:
    ours, local = open_checkpoint("org/model"), open_checkpoint(folder)
    assert (ours.source, ours.path, ours.revision) == ("org/model", None, COMMIT)
    assert list(ours.tensors) == list(local.tensors)
    assert (ours.config, ours.files, ours.findings) == (local.config, local.files, ())


def test_the_requests_that_are_made(hub: Hub) -> None:
    open_checkpoint("org/model")
    assert hub.requests[0].path == "/api/models/org/model/revision/main"
    assert sorted((request.file, request.range) for request in hub.requests[1:]) == [
        ("config.json", None),
        (FIRST, "bytes=0-100000"),
        (SECOND, "bytes=0-100000"),
        (INDEX, None),
    ]
    assert all(f"/resolve/{COMMIT}/" in request.path for request in hub.requests[1:])


def write_header(folder: Path, header_bytes: int) -> Path:
    """One tensor of 64 MiB behind a header of a given length."""
    raw = b'{"w":{"dtype":"U8","shape":[67108864],"data_offsets":[0,67108864]}}'
    path = folder / "model.safetensors"
    with path.open("wb") as stream:
        stream.write(safetensors_bytes(raw.ljust(header_bytes), 0))
        stream.truncate(8 + header_bytes + 67_108_864)
    return path


# huggingface/huggingface_hub#4602: the first request brought 100,001 bytes, length field and all.
EDGES = [2, 99_992, 99_993, 99_994, 100_000, 100_001, 100_008, 300_000]


@pytest.mark.parametrize("header_bytes", EDGES)
@pytest.mark.parametrize("ranges", ["kept", "ignored", "short"])
def test_headers_at_the_edge_of_the_first_request(
    ranges: str, header_bytes: int, hub: Hub, folder: Path
) -> None:
    for path in folder.iterdir():
        path.unlink()
    header_bytes = max(header_bytes, 67)
    size = write_header(folder, header_bytes).stat().st_size
    hub.ranges = ranges  # type: ignore[assignment]
    checkpoint = open_checkpoint("org/model")
    assert checkpoint.findings == ()
    assert list(checkpoint.tensors.nbytes) == [67_108_864]
    assert checkpoint.files[0].bytes == size
    asked = [request.range for request in hub.asked("model.safetensors")]
    if ranges == "kept" and header_bytes > 99_993:
        assert asked == ["bytes=0-100000", f"bytes=100001-{8 + header_bytes - 1}"]
    elif ranges != "short":
        assert asked == ["bytes=0-100000"]
    else:
        assert asked[1:2] == ([f"bytes=50000-{8 + header_bytes - 1}"] if header_bytes > 49_992 else [])
    assert hub.sent < 16_000_000  # what the sockets hold of 67 MB, where the range is ignored


def test_answers_that_stay_short(hub: Hub, folder: Path) -> None:
    hub.ranges, hub.short_bytes = "short", 1
    error = refused(HubError, "hub_short_answer")
    assert error.where["received"] == 32
    assert len(hub.asked(FIRST)) == 32


def test_an_empty_file_on_the_hub(hub: Hub, folder: Path) -> None:
    (folder / FIRST).write_bytes(b"")
    (finding,) = open_checkpoint("org/model").findings
    assert (finding.code, finding.where["bytes"]) == ("not_safetensors", 0)


def test_faults_are_findings_as_in_a_folder(hub: Hub, folder: Path) -> None:
    (folder / SECOND).write_bytes((folder / SECOND).read_bytes()[:-1])
    (finding,) = open_checkpoint("org/model").findings
    assert (finding.code, finding.where["missing_bytes"]) == ("truncated_payload", 1)


@pytest.mark.parametrize(
    ("end", "status", "word", "kind", "code"),
    [
        ("/revision/main", 404, "RepoNotFound", CheckpointMissingError, "hub_repository_missing"),
        ("/revision/main", 404, "", CheckpointMissingError, "hub_repository_missing"),
        ("/revision/main", 401, "RepoNotFound", CheckpointMissingError, "hub_repository_missing"),
        ("/revision/main", 401, "", CheckpointMissingError, "hub_repository_missing"),
        ("/revision/main", 404, "RevisionNotFound", CheckpointMissingError, "hub_revision_missing"),
        ("/revision/main", 403, "GatedRepo", HubError, "hub_gated"),
        ("/config.json", 401, "GatedRepo", HubError, "hub_gated"),
        (FIRST, 403, "GatedRepo", HubError, "hub_gated"),
        ("/revision/main", 403, "", HubError, "hub_error"),
        ("/revision/main", 400, "", HubError, "hub_error"),
        (INDEX, 404, "EntryNotFound", CheckpointMissingError, "hub_file_missing"),
        (INDEX, 404, "", CheckpointMissingError, "hub_file_missing"),
    ],
)
def test_refusals(
    end: str, status: int, word: str, kind: type[CheckpointError], code: str, hub: Hub, waits: list[float]
) -> None:
    hub.refusals[end] = (status, word)
    error = refused(kind, code)
    assert "org/model" in error.message
    assert waits == []


def test_a_repository_that_is_neither_here_nor_there(hub: Hub) -> None:
    error = refused(CheckpointMissingError, "hub_repository_missing", "org/typo")
    assert "no file or folder org/typo" in error.message
    assert "HF_TOKEN" in error.message


def test_a_revision(hub: Hub) -> None:
    hub.revisions = ("v1.0/rc",)
    assert open_checkpoint("org/model@v1.0/rc").revision == COMMIT
    refused(CheckpointMissingError, "hub_revision_missing", "org/model@v2")


def test_a_shard_that_the_listing_lacks(hub: Hub, folder: Path) -> None:
    (folder / SECOND).unlink()
    (finding,) = open_checkpoint("org/model").findings
    assert (finding.code, finding.where["missing_files"]) == ("missing_shards", [SECOND])


def test_a_shard_that_is_gone_when_asked_for(hub: Hub) -> None:
    hub.refusals[SECOND] = (404, "EntryNotFound")
    (finding,) = open_checkpoint("org/model").findings
    assert (finding.code, finding.severity) == ("hub_file_missing", "error")


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_failures_that_pass(status: int, hub: Hub, waits: list[float]) -> None:
    hub.failures = [(status, {})] * 3
    assert open_checkpoint("org/model").findings == ()
    assert waits == [0.5, 1.0, 2.0]


def test_the_server_says_how_long_to_wait(hub: Hub, waits: list[float]) -> None:
    hub.failures = [
        (429, {"Retry-After": "7"}),
        (429, {"Retry-After": "9999"}),
        (503, {"Retry-After": "soon"}),
    ]
    open_checkpoint("org/model")
    assert waits == [7.0, 20.0, 2.0]


@pytest.mark.parametrize(("status", "code"), [(429, "hub_rate_limited"), (503, "hub_error")])
def test_failures_that_do_not_pass(status: int, code: str, hub: Hub) -> None:
    hub.failures = [(status, {})] * 100
    error = refused(HubError, code)
    assert str(status) in error.message
    assert len(hub.requests) == 4


def test_nobody_answers(hub: Hub, waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    error = refused(HubError, "hub_unreachable")
    assert "http://127.0.0.1:9" in error.message
    assert len(waits) == 3


@pytest.mark.parametrize("endpoint", ["ftp://127.0.0.1", "127.0.0.1", "http://[", ""])
def test_an_endpoint_that_is_none(endpoint: str, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
    refused(HubError, "hub_unreachable")


@pytest.mark.parametrize(
    "listing",
    [
        b"<html>",
        b"[]",
        {"sha": COMMIT},
        {"siblings": []},
        {"sha": "../../../../etc", "siblings": []},
        {"sha": COMMIT, "siblings": {}},
    ],
)
def test_a_listing_that_is_none(listing: dict[str, object] | bytes, hub: Hub) -> None:
    hub.listing = listing
    refused(HubError, "hub_error")


def test_a_listing_of_odd_names(hub: Hub) -> None:
    odd = [
        None,
        5,
        {},
        {"rfilename": 5},
        {"rfilename": "../x.safetensors"},
        {"rfilename": "sub/model.safetensors"},
    ]
    hub.listing = {"sha": COMMIT, "siblings": odd}
    refused(CheckpointMissingError, "empty_checkpoint")


def test_the_token_goes_to_the_hub_and_not_beyond(
    hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with serve(Hub({"org/model": folder})) as storage:
        hub.redirect_to = storage.address
        assert open_checkpoint("org/model").findings == ()
    assert {request.authorization for request in hub.requests} == {"Bearer hf_secret"}
    assert {request.authorization for request in storage.requests} == {None}
    assert storage.asked(FIRST)[0].range == "bytes=0-100000"


def test_a_token_without_access(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.refusals["/revision/main"] = (401, "")
    error = refused(HubError, "hub_unauthorized")
    assert "hf_secret" not in error.message
    hub.refusals["/revision/main"] = (403, "GatedRepo")
    assert "no access" in refused(HubError, "hub_gated").message


def cached(cache: Path, folder: Path, names: list[str]) -> Path:
    """These files as huggingface_hub would have cached them."""
    repository = cache / "models--org--model"
    snapshot, blobs = repository / "snapshots" / COMMIT, repository / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    for number, name in enumerate(names):
        shutil.copy(folder / name, blobs / str(number))
        (snapshot / name).symlink_to(os.path.join("..", "..", "blobs", str(number)))
    return snapshot


def test_what_is_cached_is_not_asked_for(hub: Hub, folder: Path, cache: Path) -> None:
    cached(cache, folder, ["config.json", FIRST])
    assert open_checkpoint("org/model").findings == ()
    assert sorted(request.file for request in hub.requests[1:]) == [SECOND, INDEX]


@pytest.mark.parametrize("revision", ["", "@main", f"@{COMMIT}"])
def test_the_cache_without_a_network(
    revision: str, hub: Hub, folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = cached(cache, folder, ["config.json", INDEX, FIRST, SECOND])
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    checkpoint = open_checkpoint(f"org/model{revision}")
    assert (checkpoint.path, checkpoint.revision) == (snapshot, COMMIT)
    assert len(checkpoint.tensors) == 2
    (finding,) = checkpoint.findings
    assert (finding.code, finding.severity) == ("hub_offline", "info")


def test_offline_mode_asks_nobody(
    hub: Hub, folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    refused(CheckpointMissingError, "hub_offline")
    cached(cache, folder, ["config.json", INDEX, FIRST])
    assert [finding.code for finding in open_checkpoint("org/model").findings] == [
        "missing_shards",
        "hub_offline",
    ]
    refused(CheckpointMissingError, "hub_offline", "org/model@other")
    refused(CheckpointMissingError, "checkpoint_missing", "org/model@../../x")
    assert hub.requests == []


def test_a_refusal_is_not_answered_from_the_cache(hub: Hub, folder: Path, cache: Path) -> None:
    cached(cache, folder, ["config.json", INDEX, FIRST, SECOND])
    hub.refusals["/revision/main"] = (404, "RepoNotFound")
    refused(CheckpointMissingError, "hub_repository_missing")


@pytest.fixture
def ggufs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two models with headers of 130,000 bytes, read in windows of 65,536."""
    monkeypatch.setattr("ropewalk.inspector.readers.hubstore.WINDOW_BYTES", 65_536)
    for path in folder.iterdir():
        path.unlink()
    for name in ("Q4_K_M", "Q8_0"):
        writer = (
            GgufWriter().key("general.architecture", "string", "qwen3").key("general.name", "string", name)
        )
        writer.key("qwen3.block_count", "uint32", 1)
        writer.array("tokenizer.ggml.tokens", "string", ["token"] * 10_000)
        writer.tensor("output.weight", "Q8_0", (4096, 32)).write(folder / f"model-{name}.gguf")


@pytest.mark.usefixtures("ggufs")
def test_a_gguf_by_ranges(hub: Hub) -> None:
    error = refused(CheckpointError, "ambiguous_checkpoint")
    assert error.where["choices"] == ["model-Q4_K_M.gguf", "model-Q8_0.gguf"]
    for tag in ("q8_0", "model-Q8_0.gguf"):
        checkpoint = open_checkpoint(f"org/model:{tag}")
        assert (checkpoint.format, checkpoint.gguf["general.name"]) == ("gguf", "Q8_0")
        assert checkpoint.tensors.total_bytes == 4096 * 34
        assert (checkpoint.revision, checkpoint.path) == (COMMIT, None)
    assert hub.asked("model-Q4_K_M.gguf") == []
    windows = [request.range for request in hub.asked("model-Q8_0.gguf")]
    assert windows[0] == "bytes=0-65535"  # it tells the size as well
    assert len(windows) == 2 * 2
    refused(CheckpointMissingError, "checkpoint_missing", "org/model:Q5_0")


@pytest.mark.usefixtures("ggufs")
def test_a_repository_of_several_ggufs_is_listed(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    for source in ("org/model", "https://huggingface.co/org/model/tree/main"):
        assert run(["inspect", source, "--json"]) == 0
        listed = json.loads(capsys.readouterr().out)["checkpoints"]
        assert [one["name"] for one in listed] == ["model-Q4_K_M.gguf", "model-Q8_0.gguf"]
        assert [one["type"] for one in listed] == ["Q8_0", "Q8_0"]  # as stored, whatever the name says


@pytest.mark.usefixtures("ggufs")
def test_a_gguf_where_ranges_are_ignored(hub: Hub) -> None:
    hub.ranges = "ignored"
    assert open_checkpoint("org/model:Q4_K_M").tensors.names == ["output.weight"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Qwen/Qwen3-8B", HubId("Qwen/Qwen3-8B", "main", None)),
        ("Qwen/Qwen3-8B@v1.0", HubId("Qwen/Qwen3-8B", "v1.0", None)),
        ("a/b@refs/pr/1", HubId("a/b", "refs/pr/1", None)),
        ("a/b.c_d-e:Q4_K_M", HubId("a/b.c_d-e", "main", "Q4_K_M")),
        ("a/b@c:sub/x.gguf", HubId("a/b", "c", "sub/x.gguf")),
        ("gpt2", None),
        ("./models/x", None),
        ("/models/x", None),
        ("a/b/c", None),
        ("a/../b", None),
        ("../b", None),
        ("a/b@../c", None),
        ("a--b/c", None),
        ("-a/b", None),
        ("a/b ", None),
        ("é/b", None),
        ("a/b@", None),
        ("a/" + "x" * 97, None),
    ],
)
def test_hub_ids(text: str, expected: HubId | None) -> None:
    assert parse_hub_id(text) == expected


def test_single_file_repository(hub: Hub, folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    write_tensors(folder / "model.safetensors", [("a", "U8", (1,))])
    (folder / "onnx").mkdir()
    write_tensors(folder / "onnx" / "model.safetensors", [("a", "U8", (1,))])
    checkpoint = open_checkpoint("org/model")
    assert (checkpoint.tensors.names, checkpoint.findings) == (["a"], ())


def test_an_answer_that_drips_is_not_waited_for(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(step=100.0)
    monkeypatch.setattr("ropewalk.inspector.readers.hub.monotonic", lambda: next(clock))
    assert refused(HubError, "hub_limit").message.endswith("the Hub took more than 300 s")


def test_configurations_have_a_limit_together(
    hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropewalk.inspector.readers.hub.MAX_HUB_BYTES", 2000)
    for name in ("generation_config.json", "tokenizer_config.json"):
        write_json(folder / name, {"x": "y" * 1500})
    assert "more than 2,000 bytes of configuration files" in refused(HubError, "hub_limit").message
