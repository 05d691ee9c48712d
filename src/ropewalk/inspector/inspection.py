"""Checkpoint to inspection: settings and tensors held against each other, every fact with its source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod

from ropewalk.errors import CheckpointError
from ropewalk.findings import Finding, by_severity
from ropewalk.inspector.derive.architecture import architecture_facts
from ropewalk.inspector.derive.block import typical_block
from ropewalk.inspector.derive.configs import read_config
from ropewalk.inspector.derive.evidence import BlockEvidence, layer_evidence
from ropewalk.inspector.derive.facts import (
    count_facts,
    declared_facts,
    dtype_fact,
    encoder_facts,
    finite,
    head_facts,
    identity_facts,
    observed_facts,
    tokenizer_limit,
)
from ropewalk.inspector.derive.families import family_of
from ropewalk.inspector.derive.gguf_config import read_gguf
from ropewalk.inspector.derive.kinds import adapter_facts, kind_of
from ropewalk.inspector.derive.layers import cross_layers, derive_layers, group_layers, group_passes
from ropewalk.inspector.derive.names import Names, Row, sort_names
from ropewalk.inspector.derive.observed import Observed, observed_fields
from ropewalk.inspector.derive.packing import Weight, unpack
from ropewalk.inspector.derive.parameters import Parameters, count_parameters
from ropewalk.inspector.derive.patterns import cache_passes, layer_words, num_blocks, shared_transformers
from ropewalk.inspector.derive.places import Places, place
from ropewalk.inspector.derive.positions import position_embedding, rope_of, trained_before_chunks
from ropewalk.inspector.derive.quantisation import packing_hint, quantization_fact
from ropewalk.inspector.derive.readable import read_by
from ropewalk.inspector.derive.reconcile import (
    Disagreement,
    is_incomplete,
    mismatch,
    null_head_dim,
    reconcile_heads,
    reconcile_observed,
    reconcile_vocabulary,
)
from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.derive.stated_towers import item_facts, stated_towers
from ropewalk.inspector.derive.storage import reconcile_storage
from ropewalk.inspector.derive.tied import tied_embeddings
from ropewalk.inspector.derive.unknown import unknown_findings
from ropewalk.inspector.derive.weight_bytes import weight_bytes
from ropewalk.inspector.layer_kinds import AnyLayer
from ropewalk.inspector.published import contexts
from ropewalk.inspector.records import (
    Checkpoint,
    CheckpointKind,
    CheckpointSummary,
    DtypeTotal,
    Fact,
    Inspection,
    WeightBytes,
)
from ropewalk.limits import MAX_LAYERS


def inspect_checkpoint(checkpoint: Checkpoint) -> Inspection:
    """What a checkpoint is, from its headers and its metadata.

    Raises :class:`CheckpointError` where there is no record to give: values that are no counts, no number
    of layers anywhere.
    """
    settings = _settings(checkpoint)
    names = sort_names(checkpoint.tensors)
    kind = kind_of(checkpoint, settings, names)
    if kind in ("adapter", "projector", "unknown"):
        return _inspect_part(checkpoint, settings, names, kind)
    return _Derivation(checkpoint, settings, names, kind).inspection()


def _settings(checkpoint: Checkpoint) -> Settings:
    """Those of the GGUF file, of config.json, or of Mistral's own params.json where that is all there is."""
    if checkpoint.format == "gguf":
        return read_gguf(checkpoint.gguf)
    own = checkpoint.relatives.get("params.json")
    return read_config(own if not checkpoint.config and isinstance(own, Mapping) else checkpoint.config)


class _Derivation:
    """The steps from settings and names to an inspection, each reading what the earlier ones found."""

    def __init__(
        self, checkpoint: Checkpoint, settings: Settings, names: Names, kind: CheckpointKind
    ) -> None:
        self.checkpoint, self.settings, self.names, self.kind = checkpoint, settings, names, kind
        self.findings = list(checkpoint.findings)
        self.incomplete = is_incomplete(checkpoint.findings)
        self.facts: dict[str, Fact] = identity_facts(settings)
        self.quantization = quantization_fact(checkpoint, settings)
        self.hint = packing_hint(checkpoint, settings, self.quantization)
        self.places = place(
            names,
            num_hidden_layers=num_blocks(settings),
            mtp_layers=settings.integer("mtp_layers"),
        )
        evidence = layer_evidence(self.places.layers, self.hint)
        if self.incomplete:  # what a block seems to lack may be in a file that is missing
            evidence = {i: block for i, block in evidence.items() if block.mixer not in ("none", "queries")}
        self.evidence: Mapping[int, BlockEvidence] = evidence
        tables = (
            w
            for w in unpack(self.places.embedding, self.hint)
            if len(w.shape) == 2 and "per_layer" not in w.name
        )
        self.table: Weight | None = next(tables, None)  # of token embeddings
        self.loose_names = [row.name for row in (*self.places.other, *self.places.embedding)]

    def inspection(self) -> Inspection:
        """All facts, layers and findings."""
        num_layers = self._num_layers()
        hidden = self._hidden_size()
        positions = position_embedding(self.settings, self.loose_names, num_layers)
        layers = derive_layers(
            self.settings, self.evidence, num_layers=num_layers, positions=positions.value, hidden_size=hidden
        )
        self.facts |= declared_facts(self.settings)
        observed = observed_fields(
            self.settings, self.evidence, hidden_size=hidden, prefix=self.places.prefix
        )
        self.facts |= observed_facts(
            self.settings, observed, has_tensors=bool(self.evidence) and not self.incomplete
        )
        self.facts |= head_facts(self.settings, layers, self.evidence, observed, prefix=self.places.prefix)
        self._reconcile(layers, observed)
        parameters = self._parameters()
        self._positions(positions, layers)
        self.facts["quantization"] = self.quantization
        self.facts["read_by"] = read_by(
            self.checkpoint.format, self.checkpoint.tensors.dtypes, self.quantization
        )
        self.facts["dtype"] = dtype_fact(self.settings, self.places)
        blocks = self.places.layers.values()
        self.findings += reconcile_storage(self.settings, self.quantization, self.facts["dtype"], blocks)
        experts = self.facts["num_experts"].value
        self.facts |= architecture_facts(
            self.settings, self.evidence, num_experts=experts, hidden_size=hidden
        )
        self.facts |= count_facts(self.settings, parameters, experts)
        if parameters is None:
            self.facts |= stated_towers(self.settings.outer, hidden)
        self.facts |= item_facts(self.settings.outer, self.settings.block)
        self.facts |= encoder_facts(self.settings, self.places)
        self.facts["tokenizer_limit"] = tokenizer_limit(self.checkpoint)
        return Inspection(
            checkpoint=_summary(
                self.checkpoint, self.names, self.kind, parameters.total if parameters else None
            ),
            facts=finite(self.facts),
            layers=self._groups(layers),
            block=None if self.incomplete else typical_block(self.evidence),
            weights=self._weights(num_layers),
            findings=by_severity(self.findings),
        )

    def _weights(self, num_layers: int) -> WeightBytes | None:
        """Bytes by place; None where no tensor was read."""
        tensors = self.checkpoint.tensors
        if not len(tensors):
            return None
        return weight_bytes(
            self.places, num_layers, named=tensors if self.checkpoint.format == "gguf" else None
        )

    def _num_layers(self) -> int:
        """Blocks in the tensors, MTP heads apart; the stated number where tensors are missing."""
        declared = self.settings.fact("num_hidden_layers")
        said = num_blocks(self.settings)
        proven = max(self.places.layers, default=-1) + 1
        if proven > MAX_LAYERS or not (proven or said):
            what = f"a block is numbered {proven - 1}" if proven else "nothing says how many layers there are"
            raise CheckpointError(
                f"{self.checkpoint.source}: {what}",
                code="config_incomplete",
                where={"field": "num_hidden_layers"},
            )
        if self.incomplete and said is not None:
            proven = max(proven, said)
        if proven and said is not None and proven != said:
            tensor = f"{self.places.prefix}{proven - 1}.{self.places.layers[proven - 1][0].name}"
            found = Disagreement("num_hidden_layers", said, proven, tensor, abs(proven - said))
            self.findings.append(mismatch(self.settings, found))
        self._tell_gaps(proven)
        observed = Fact(proven, "tensor", f"blocks of {self.places.prefix}*")
        self.facts["num_hidden_layers"] = observed if proven or declared is None else declared
        self._mtp_layers()
        return proven or int(said or 0)

    def _tell_gaps(self, num_layers: int) -> None:
        """Blocks without any tensor, in a checkpoint that has all its files."""
        gaps = [index for index in range(num_layers) if index not in self.places.layers]
        if gaps and not self.incomplete:
            message = (
                f"no tensor of {len(gaps)} of the {num_layers} layers is stored, first of layer {gaps[0]}"
            )
            where = {"layers": gaps[:100], "num_layers": len(gaps)}
            self.findings.append(Finding("layers_missing", "error", message, where))

    def _mtp_layers(self) -> None:
        declared = self.settings.fact("mtp_layers")
        said = declared.value if declared else None
        proven = len(self.places.mtp_blocks)
        if not len(self.checkpoint.tensors) or (self.incomplete and not proven):
            self.facts["mtp_layers"] = declared or Fact(None, "derived", "not stated")
            return
        self.facts["mtp_layers"] = Fact(proven, "tensor", "blocks of the MTP heads")
        if said and not proven and declared is not None and declared.source != "default":
            message = (
                f"{declared.detail} is {said}, but no MTP tensor is stored: no speculative decoding with MTP"
            )
            where = {"field": declared.detail, "config": said, "tensors": 0}
            self.findings.append(Finding("config_tensor_mismatch", "warning", message, where))

    def _hidden_size(self) -> int | None:
        """The width of the embedding, or of the first norm where that agrees with the stated one."""
        declared = self.settings.fact("hidden_size")
        said = declared.value if declared else None
        widths = [(self.table.name, self.table.shape[-1])] if self.table is not None else []
        block = next(iter(self.evidence.values()), None)
        norm = block.roles.get("norm") if block else None
        if norm is not None and len(norm.shape) == 1 and "." not in norm.name.removesuffix(".weight"):
            widths.insert(0, (f"{self.places.prefix}0.{norm.name}", norm.shape[0]))
        if not widths:
            self.facts["hidden_size"] = declared or Fact(None, "derived", "not stated")
            return said if isinstance(said, int) else None
        name, proven = widths[0]
        if said is not None and said != proven and self._is_projected(proven, said):
            self.facts["hidden_size"] = declared or Fact(said, "config", "hidden_size")
            return int(said)
        self.facts["hidden_size"] = Fact(proven, "tensor", name)
        if said is not None and said != proven:
            self.findings.append(mismatch(self.settings, Disagreement("hidden_size", said, proven, name, 1)))
        return proven

    def _is_projected(self, width: int, hidden_size: int) -> bool:
        """Whether a matrix beside the blocks leads from the embedding's width to the hidden one (ELECTRA)."""
        sides = {width, hidden_size}
        return any(len(row.shape) == 2 and set(row.shape) == sides for row in self.places.other)

    def _reconcile(self, layers: list[AnyLayer], observed: Mapping[str, Observed]) -> None:
        words = layer_words(self.settings, len(layers)) or ["full"] * len(layers)
        found = reconcile_heads(
            self.settings,
            words,
            layers,
            self.evidence,
            hidden_size=self.facts["hidden_size"].value,
            prefix=self.places.prefix,
        )
        self.findings += null_head_dim(self.settings, self.facts, has_tensors=bool(self.evidence))
        found += reconcile_observed(self.settings, observed)
        self.findings += [mismatch(self.settings, item) for item in found]
        heads = {row.shape[0] for row in self.places.output_head if len(row.shape) == 2}
        fact, told = reconcile_vocabulary(self.settings.fact("vocab_size"), self.table, heads)
        self.facts["vocab_size"] = fact or Fact(None, "derived", "not stated")
        self.findings += told
        self.findings += unknown_findings(self.settings, layers)

    def _parameters(self) -> Parameters | None:
        tied, told = tied_embeddings(self.settings, self.places, incomplete=self.incomplete)
        self.facts["tie_word_embeddings"] = tied
        self.findings += told
        if not len(self.checkpoint.tensors) or self.incomplete:
            return None
        parameters = count_parameters(
            self.places,
            self.evidence,
            self.hint,
            tied=bool(tied.value),
            tables=2 if family_of(self.settings.outer.get("model_type")).has_two_tables else 1,
            shared=shared_transformers(self.settings),
        )
        if parameters.total is None:
            message = (
                "the weights are packed in a way that does not tell their number; parameters are left out"
            )
            self.findings.append(Finding("packing_unknown", "info", message, {}))
        return parameters

    def _positions(self, positions: Fact, layers: list[AnyLayer]) -> None:
        self.facts["position_embedding"] = positions
        size = self.facts["qk_rope_head_dim"].value
        full = next((layer.head_dim_k for layer in layers if layer.kind == "full"), None)
        head_dim = size or full or self.facts["head_dim"].value
        rope = rope_of(
            self.settings, positions=positions.value, head_dim=head_dim, loose_names=self.loose_names
        )
        self.facts |= rope.facts
        self.findings += rope.findings
        asked = {name: fact for name, fact in self.facts.items() if not isinstance(fact.value, list)}
        longer = self.settings.fact("model_max_length")
        if longer is not None:
            asked["model_max_length"] = longer
        trained = trained_before_chunks(self.settings)
        if trained is not None:
            asked["trained_context"] = trained
        self.facts |= contexts(asked)

    def _groups(self, layers: list[AnyLayer]) -> tuple[AnyLayer, ...]:
        """The decoder of an encoder-decoder keeps the encoder's keys and values as well as its own."""
        groups = group_passes(layers, cache_passes(self.settings, len(layers)))
        groups *= family_of(self.settings.model_type).caches_per_layer
        if self.facts["is_encoder_decoder"].value is not True:
            return groups
        return groups + group_layers(cross_layers(layers))


def _inspect_part(
    checkpoint: Checkpoint, settings: Settings, names: Names, kind: CheckpointKind
) -> Inspection:
    """An adapter, a projector, or something that has no layers to describe."""
    facts, findings = identity_facts(settings), list(checkpoint.findings)
    if kind == "adapter":
        own, told = adapter_facts(checkpoint)
        facts |= own
        findings += told
    facts["quantization"] = quantization_fact(checkpoint, settings)
    hint = packing_hint(checkpoint, settings, facts["quantization"])
    blocks: list[list[Row]] = [rows for stack in names.stacks.values() for rows in stack.blocks.values()]
    counts = [weight.total for rows in [*blocks, names.loose] for weight in unpack(rows, hint)]
    known = [count for count in counts if count is not None]
    total = sum(known) if known and len(known) == len(counts) else None
    places = Places(other=[row for rows in [*blocks, names.loose] for row in rows])
    return Inspection(
        checkpoint=_summary(checkpoint, names, kind, total),
        facts=finite(facts),
        layers=(),
        block=None,
        weights=weight_bytes(places, 0) if len(checkpoint.tensors) else None,
        findings=by_severity(findings),
    )


def _summary(
    checkpoint: Checkpoint, names: Names, kind: CheckpointKind, parameters: int | None
) -> CheckpointSummary:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    elements = 0
    for row in names.rows():
        counts[row.dtype] += row.count
        sizes[row.dtype] += row.nbytes
        elements += row.count * prod(row.shape)
    return CheckpointSummary(
        source=checkpoint.source,
        kind=kind,
        format=checkpoint.format,
        files=checkpoint.files,
        num_tensors=len(checkpoint.tensors),
        tensor_bytes=sum(sizes.values()),
        stored_elements=elements,
        parameters=parameters,
        dtypes={dtype: DtypeTotal(counts[dtype], sizes[dtype]) for dtype in sorted(counts)},
    )
