"""A folder or Hub repository to a ``Checkpoint``: reads its configs and the headers of its weights.

With an index only the tensors that it names are weights. Which files are weights without one is said in
:mod:`ropewalk.inspector.readers.weights`. Nothing is counted twice.
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from ropewalk.errors import CheckpointError, CheckpointMissingError, HubError
from ropewalk.findings import Finding, Severity
from ropewalk.inspector.readers.index import Index, find_index, parse_index
from ropewalk.inspector.readers.jsonfile import JsonBudget, parse_object, repeated_keys
from ropewalk.inspector.readers.safetensors import HeaderReader
from ropewalk.inspector.readers.store import Store
from ropewalk.inspector.readers.weights import (
    Weights,
    choose_weights,
    is_copy,
    is_slice,
    is_weights,
    part_of,
    pickles,
)
from ropewalk.inspector.records import Checkpoint, CheckpointFile
from ropewalk.inspector.tensors import Columns, TensorTable, too_large
from ropewalk.inspector.wording import MAX_NAMED, clip, some
from ropewalk.limits import MAX_FILES

CONFIG = "config.json"
RELATIVES = (
    "generation_config.json",
    "tokenizer_config.json",
    "hf_quant_config.json",  # NVIDIA ModelOpt
    "quantize_config.json",  # AutoGPTQ
    "adapter_config.json",  # peft
    "params.json",  # Mistral's own format
)


def read_repository(store: Store, *, path: Path | None, index: str | None = None) -> Checkpoint:
    """Open all of a repository; ``index`` is the name of its index where the user gave that.

    Raises :class:`CheckpointError` where there is nothing to read: neither weights nor a config, no readable
    shard, an index that is none.
    """
    names = store.names()
    reading = _Reading(store)
    reading.read_configs(names)
    index = index or find_index(names)
    was_enabled = gc.isenabled()
    gc.disable()  # headers are trees without cycles; searching them for garbage takes a sixth of the time
    try:
        if index is not None:
            reading.read_indexed(parse_index(store.read(index), file=index))
        else:
            weights = choose_weights(names)
            reading.read_files(weights.used)
            reading.note_weights(weights)
    finally:
        if was_enabled:
            gc.enable()
    return reading.checkpoint(path)


def read_single(store: Store, name: str, *, path: Path) -> Checkpoint:
    """Open one safetensors file, with the configs that lie beside it."""
    reading = _Reading(store)
    reading.read_configs(store.names())
    reading.read_files([name])
    number, count = part_of(name)
    if count > 1:
        reading.add(
            "single_shard", "warning",
            f"{name} is shard {number} of {count}, read alone: name its folder to see the whole checkpoint",
            file=name, shard=number, shards=count,
        )  # fmt: skip
    return reading.checkpoint(path)


def read_config(store: Store, name: str, *, path: Path) -> Checkpoint:
    """Open a configuration alone: no tensors. The other JSON files beside it are its relatives."""
    reading = _Reading(store)
    raw = store.read(name)
    reading.config = parse_object(raw, file=name, budget=reading.configs_budget)
    reading._note_repeated_keys(name, raw)
    reading.read_configs([other for other in store.names() if other not in (CONFIG, name)])
    return reading.checkpoint(path)


class _Reading:
    """A checkpoint in the making."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.config: dict[str, Any] = {}
        self.relatives: dict[str, Any] = {}
        self.tensors = TensorTable()
        self.files: list[CheckpointFile] = []
        self.findings: list[Finding] = []
        self.headers = HeaderReader()
        self.configs_budget = JsonBudget.of_configs()

    def checkpoint(self, path: Path | None) -> Checkpoint:
        return Checkpoint(
            source=self.store.source,
            path=path,
            format="safetensors" if self.files else "config",
            files=tuple(self.files),
            tensors=self.tensors,
            config=self.config,
            relatives=self.relatives,
            findings=tuple(self.findings),
        )

    def add(self, code: str, severity: Severity, message: str, **where: Any) -> None:
        self.findings.append(Finding(code, severity, message, where))

    def read_configs(self, names: Sequence[str]) -> None:
        """``config.json`` and its relatives. One that is no JSON is a finding; the tensors still count."""
        present = [name for name in (CONFIG, *RELATIVES) if name in names]
        self.store.expect(present)
        for name in present:
            try:
                raw = self.store.read(name)
                value = parse_object(raw, file=name, budget=self.configs_budget)
            except HubError:
                raise
            except CheckpointError as error:
                severity: Severity = "error" if name == CONFIG else "warning"
                self.add(error.code, severity, error.message, **error.where)
                continue
            self._note_repeated_keys(name, raw)
            if name == CONFIG:
                self.config = value
            else:
                self.relatives[name] = value

    def _note_repeated_keys(self, name: str, raw: bytes) -> None:
        for key, values in repeated_keys(raw)[:MAX_NAMED]:
            self.add(
                "duplicate_key", "warning",
                f"{name} gives {clip(key)!r} {len(values)} times; the last one counts, as in transformers",
                file=name, field=clip(key), count=len(values),
            )  # fmt: skip

    def read_files(self, names: Sequence[str]) -> None:
        """Whole files. A tensor that an earlier file has already is not counted again."""
        seen: set[str] = set()
        slices = 0
        for name, columns in self._headers(names):
            repeated = seen.intersection(columns.names) if seen else ()
            if repeated and is_slice(name) and self._join_slices(columns, repeated):
                slices += 1
                columns = columns.without(repeated)
            elif repeated:
                columns = columns.without(repeated)
                self.add(
                    "duplicate_weights", "warning",
                    f"{name} repeats {len(repeated):,} tensors of earlier files; they are counted once",
                    file=name, count=len(repeated), tensors=clip(sorted(repeated)),
                )  # fmt: skip
            if len(names) > 1:
                seen.update(columns.names)
            self.tensors.extend(columns, self.tensors.add_file(name))
        if slices:
            self.add(
                "slices_joined", "info",
                f"{slices + 1} files hold slices of the same tensors (tensor parallelism); they are joined",
                count=slices + 1,
            )  # fmt: skip
        if names and not len(self.tensors):
            self.add("empty_checkpoint", "warning", f"{some(names)}: no tensor in it", files=list(names))

    def _join_slices(self, columns: Columns, repeated: Collection[str]) -> bool:
        """Lengthen the tensors of earlier files by these slices; False where they are no equal slices.

        They are joined along the side that is not the residual stream's, the first where both could be.
        """
        hidden, table = self.config.get("hidden_size"), self.tensors
        rows = {name: row for row, name in enumerate(table.names) if name in repeated}
        joined = []
        for name, dtype, shape, size in zip(
            columns.names, columns.dtypes, columns.shapes, columns.nbytes, strict=True
        ):
            if name not in rows:
                continue
            row, side = rows[name], -1 if shape and shape[0] == hidden != shape[-1] else 0
            whole = list(table.shapes[row])
            if not shape or dtype != table.dtypes[row] or len(whole) != len(shape):
                return False
            whole[side] += shape[side]
            joined.append((row, tuple(whole), table.nbytes[row] + size))
        for row, whole_shape, size in joined:
            table.shapes[row], table.nbytes[row] = whole_shape, size
        return True

    def _headers(self, names: Sequence[str]) -> Iterable[tuple[str, Columns]]:
        """The columns of each readable file. Raises the first error where none of several can be read."""
        if len(names) > MAX_FILES:
            raise too_large(self.store.source, "files of weights", len(names), MAX_FILES)
        self.store.expect(names)
        first: CheckpointError | None = None
        for name in names:
            try:
                raw = self.store.header(name)
                header = self.headers.read(raw.raw, file=name, data_bytes=raw.data_bytes)
            except CheckpointError as error:
                if isinstance(error, HubError) or error.code == "unsafe_path":
                    raise
                first = first or error
                self.add(error.code, "error", error.message, **error.where)
                continue
            self.files.append(CheckpointFile(name, raw.file_bytes))
            self.findings.extend(header.findings)
            yield name, header.columns
        if first is not None and not self.files:
            raise first

    def read_indexed(self, index: Index) -> None:
        """The tensors that the index names, each in the shard that it names; a hit elsewhere is none."""
        present = [shard for shard in index.shards if self.store.has(shard)]
        missing = sorted(index.shards.keys() - set(present))
        absent: list[tuple[str, str]] = []
        unindexed: list[tuple[str, str]] = []
        for shard, columns in self._headers(present):
            expected = index.shards[shard]
            if columns.names != expected and (found := set(columns.names)) != set(expected):
                absent += [(name, shard) for name in expected if name not in found]
                surplus = found.difference(expected)
                unindexed += [(name, shard) for name in columns.names if name in surplus]
                columns = columns.without(surplus)
            self.tensors.extend(columns, self.tensors.add_file(shard))
        if missing:
            self._note_missing_shards(missing, index)
        self._note_misplaced(index, absent, unindexed)
        complete = len(self.files) == len(index.shards) and not absent
        if complete and index.total_bytes not in (None, self.tensors.total_bytes):
            self.add(
                "total_size_mismatch", "warning",
                f"{index.file} says {index.total_bytes:,} bytes in all, the headers "
                f"{self.tensors.total_bytes:,}; the headers count",
                file=index.file, total_size=index.total_bytes, tensor_bytes=self.tensors.total_bytes,
            )  # fmt: skip
        self._note_unused(index.shards)

    def _note_missing_shards(self, missing: Sequence[str], index: Index | None) -> None:
        tensors = sum(len(index.shards[shard]) for shard in missing) if index else None
        message = (
            f"{len(missing):,} {'shard is' if len(missing) == 1 else 'shards are'} missing: {some(missing)}"
        )
        where: dict[str, Any] = {
            "missing_files": list(missing[:MAX_NAMED]),
            "num_missing_files": len(missing),
            "missing_tensors": tensors,
            "bytes_present": self.tensors.total_bytes,
            "bytes_expected": index.total_bytes if index else None,
        }
        if not self.files:
            raise CheckpointError(f"{self.store.source}: {message}", code="missing_shards", where=where)
        self.add("missing_shards", "error", message, **where)

    def _note_misplaced(
        self, index: Index, absent: Sequence[tuple[str, str]], unindexed: Sequence[tuple[str, str]]
    ) -> None:
        if absent:
            name, shard = absent[0]
            self.add(
                "index_tensor_missing", "error",
                f"{index.file} says that {clip(name)} is in {shard}, which does not hold it"
                + (f" ({len(absent):,} such tensors)" if len(absent) > 1 else ""),
                file=index.file, missing=[clip(pair) for pair in absent[:MAX_NAMED]], count=len(absent),
            )  # fmt: skip
        if unindexed:
            name, shard = unindexed[0]
            self.add(
                "unindexed_tensor", "warning",
                f"{clip(name)} lies in {shard}, but {index.file} does not say so; it is not counted"
                + (f" ({len(unindexed):,} such tensors)" if len(unindexed) > 1 else ""),
                file=index.file, unindexed=[clip(pair) for pair in unindexed[:MAX_NAMED]],
                count=len(unindexed),
            )  # fmt: skip

    def note_weights(self, weights: Weights) -> None:
        """What a folder without index leaves to say: shards missing by number, other files, no weights."""
        if weights.missing:
            self._note_missing_shards(weights.missing, None)
        if weights.used:
            self._note_unused(weights.used)
            return
        unread = pickles(self.store.names())
        if unread:
            message = f"the weights are Python pickles ({some(unread)}), which ropewalk never opens"
            if not self.config:
                raise CheckpointError(message, code="pickle_only", where={"files": unread[:MAX_NAMED]})
            self.add("pickle_only", "error", message, files=unread[:MAX_NAMED])
        elif not self.config:
            self._refuse_empty()

    def _refuse_empty(self) -> None:
        """No weights and no config: what is wrong with the config, else that nothing is there."""
        for finding in self.findings:
            if finding.where.get("file") == CONFIG:
                raise CheckpointError(finding.message, code=finding.code, where=finding.where)
        raise CheckpointMissingError(
            f"{self.store.source} holds no checkpoint: no safetensors or GGUF file and no {CONFIG}",
            code="empty_checkpoint", where={"file": self.store.source},
        )  # fmt: skip

    def _note_unused(self, used: Collection[str]) -> None:
        """Other safetensors files of the folder: by its name a second copy of the weights, or unknown."""
        unused = [name for name in self.store.names() if is_weights(name) and name not in used]
        copies = [name for name in unused if is_copy(name)]
        others = [name for name in unused if not is_copy(name)]
        if copies:
            self.add(
                "duplicate_weights", "warning",
                f"{some(copies)} repeats the weights and is not counted: huggingface_hub prefers "
                "model.safetensors, vLLM the files of the index",
                ignored=copies[:MAX_NAMED], files_used=sorted(used)[:MAX_NAMED],
            )  # fmt: skip
        if others:
            self.add(
                "unindexed_file", "warning", f"{some(others)} is not part of the checkpoint and not counted",
                ignored=others[:MAX_NAMED],
            )  # fmt: skip
