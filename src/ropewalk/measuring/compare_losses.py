"""What the losses say of the arms: pairs on the same tokens, one sentence, what a reader must know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal

from ropewalk.findings import Finding
from ropewalk.measuring.loss.curves import paired_losses
from ropewalk.measuring.loss.records import FactorCost, LossBin, LossSpan, PairedLoss
from ropewalk.measuring.records import ArmResult, Comparison

MIN_FACTORS = 2
Spans = Mapping[str, Sequence[LossSpan]]  # by arm, in the order of the arms


def compare_losses(
    comparison: Comparison | None,
    arms: Sequence[ArmResult],
    spans: Spans,
    *,
    target_len: int,
    trained_len: int | None,
) -> Comparison:
    """The comparison with what the losses say; an arm that loses less than every other one beyond the trained
    length is recommended where recall leads to none."""
    pairs = tuple(
        pair
        for first, second in combinations([arm.arm for arm in arms], 2)
        for pair in paired_losses(spans[first], spans[second], trained_len=trained_len)
    )
    best, factors = _best(arms, pairs), tuple(factor_costs(arms, pairs))
    verdict = _verdict(arms, pairs, factors)
    comparison = comparison or Comparison(target_len, None, verdict)
    return replace(
        comparison,
        recommended=comparison.recommended or best,
        losses=pairs,
        factors=factors,
        loss_verdict=verdict,
    )


def loss_findings(arms: Sequence[ArmResult], comparison: Comparison | None) -> tuple[Finding, ...]:
    """What a reader must know before believing the losses."""
    pairs = comparison.losses if comparison else ()
    return (*_unequal(arms, pairs), *_bounded(arms))


def holds(arm: ArmResult) -> bool:
    """Whether an arm's loss was read, and stays at its own base to the end."""
    own = next((curve for curve in arm.losses if curve.probe == "loss"), None)
    return own is not None and own.leaves_at is None


def factor_costs(arms: Sequence[ArmResult], pairs: Sequence[PairedLoss]) -> list[FactorCost]:
    """The scaled arms of the plain cache type, the one that loses least beyond the trained length first."""
    scaled = [arm.arm for arm in arms if arm.rope and arm.rope.decision == "scale" and "+" not in arm.arm]
    plain = [name for name in ("unscaled", "shipped") if any(arm.arm == name for arm in arms)]
    if not scaled:
        return []
    first = scaled[0]
    best = min(scaled, key=lambda name: 0.0 if name == first else _mean(_more(pairs, first, name, "beyond")))
    costs = [
        FactorCost(
            name,
            None if name == best else _more(pairs, best, name, "beyond"),
            next((more for other in plain if (more := _more(pairs, other, name, "inside"))), None),
        )
        for name in scaled
    ]
    return sorted(costs, key=lambda cost: _mean(cost.beyond) if cost.arm != best else float("-inf"))


def _mean(one: LossBin | None) -> float:
    return float("inf") if one is None else one.mean


def _more(
    pairs: Sequence[PairedLoss], arm: str, other: str, part: Literal["inside", "beyond"]
) -> LossBin | None:
    """What ``other`` loses more than ``arm`` in this part of the text, whichever of them stands first."""
    for pair in pairs:
        found: LossBin | None = getattr(pair, part)
        if pair.probe != "loss" or found is None:
            continue
        if (pair.arm, pair.other) == (arm, other):
            return found
        if (pair.arm, pair.other) == (other, arm):
            low, high = (None if end is None else -end for end in (found.high, found.low))
            return replace(found, mean=-found.mean, low=low, high=high)
    return None


def excludes_zero(difference: LossBin | None) -> bool:
    """Whether a difference is shown: its interval has zero outside."""
    if difference is None or difference.low is None or difference.high is None:
        return False
    return difference.low > 0 or difference.high < 0


def _beyond(pairs: Iterable[PairedLoss]) -> list[PairedLoss]:
    """The pairs of the text itself that go beyond the trained length."""
    return [pair for pair in pairs if pair.probe == "loss" and pair.beyond is not None]


def _best(arms: Sequence[ArmResult], pairs: Sequence[PairedLoss]) -> str | None:
    """The arm that loses less than every other one beyond the trained length, each difference shown."""
    far = _beyond(pairs)
    reached = {name for pair in far for name in (pair.arm, pair.other)}
    for arm in (arm.arm for arm in arms if arm.arm in reached):
        own = [pair for pair in far if arm in (pair.arm, pair.other)]
        if all(excludes_zero(pair.beyond) and _loses_less(pair) == arm for pair in own):
            return arm
    return None


def _loses_less(pair: PairedLoss) -> str:
    assert pair.beyond is not None  # noqa: S101 - asked only of pairs that have it
    return pair.arm if pair.beyond.mean > 0 else pair.other


def _verdict(arms: Sequence[ArmResult], pairs: Sequence[PairedLoss], factors: Sequence[FactorCost]) -> str:
    labels = {arm.arm: arm.label for arm in arms}
    said = [_difference(pair, pair.beyond, "beyond the trained length", labels) for pair in _beyond(pairs)]
    if not said:
        said = [f"{arm.label}: {_course(arm)}" for arm in arms if any(c.probe == "loss" for c in arm.losses)]
    said += _least(factors, labels)
    copies = [pair for pair in pairs if pair.probe == "copy"]
    said += [_difference(pair, pair.whole, "on repeated passages", labels) for pair in copies]
    left = [f"{arm.label} leaves its own base at {_at(arm):,} tokens" for arm in arms if _at(arm)]
    return "; ".join([*said, *left]) or "no differences could be read"


def _least(costs: Sequence[FactorCost], labels: Mapping[str, str]) -> list[str]:
    """Of several factors, the one with the least loss beyond the trained length, shown or not."""
    if len(costs) < MIN_FACTORS or any(cost.beyond is None for cost in costs[1:]):
        return []
    return [f"of {len(costs)} factors {labels[costs[0].arm]} loses least there"]


def _course(arm: ArmResult) -> str:
    curve = next(curve for curve in arm.losses if curve.probe == "loss")
    tokens = sum(one.tokens for one in curve.bins)
    return f"{sum(one.mean * one.tokens for one in curve.bins) / tokens:.2f} nats per token"


def _difference(pair: PairedLoss, found: LossBin | None, where: str, labels: Mapping[str, str]) -> str:
    assert found is not None  # noqa: S101 - asked only of pairs that have it
    first, second = labels[pair.arm], labels[pair.other]
    if found.low is None or found.high is None:
        return f"{where} {found.tokens} pairs of {first} and {second}: too few to compare"
    if not excludes_zero(found):
        span = f"{found.low:+.2f} to {found.high:+.2f}"
        return f"{where} {second} less {first} is {span} nats per token: no difference is shown"
    more, less = (second, first) if found.mean > 0 else (first, second)
    low, high = sorted((abs(found.low), abs(found.high)))
    much = f"{abs(found.mean):.2f} nats per token more than {less} ({low:.2f} to {high:.2f})"
    return f"{where} {more} loses {much}"


def _at(arm: ArmResult) -> int | None:
    return next((curve.leaves_at for curve in arm.losses if curve.probe == "loss"), None)


def _unequal(arms: Sequence[ArmResult], pairs: Sequence[PairedLoss]) -> Iterable[Finding]:
    """As shipped and unscaled compute the same within the trained length: if they do not agree there, the
    text, the engine or the reading differs, and no difference of arms means anything."""
    kinds = {arm.arm: arm.arm.partition("+") for arm in arms}
    for pair in pairs:
        first, second = kinds[pair.arm], kinds[pair.other]
        if {first[0], second[0]} != {"shipped", "unscaled"} or first[2] != second[2] or not pair.inside:
            continue
        where = {"arms": [pair.arm, pair.other], "pairs": pair.inside.tokens}
        if pair.is_equal:
            what = (
                f"as shipped and unscaled agree in all {pair.inside.tokens} losses within the trained length"
            )
            yield Finding("losses_agree", "info", f"{what}: what differs beyond is the arms' own", where)
        else:
            what = (
                f"as shipped and unscaled differ by {pair.inside.mean:+.2g} nats per token within the trained"
            )
            yield Finding(
                "losses_differ_inside",
                "warning",
                f"{what} length, where they should compute the same: differences of arms include that",
                where,
            )


def _bounded(arms: Sequence[ArmResult]) -> Iterable[Finding]:
    for arm in arms:
        for curve in arm.losses:
            count, tokens = (sum(getattr(one, name) for one in curve.bins) for name in ("bounds", "tokens"))
            if count:
                yield Finding(
                    "losses_bounded",
                    "info",
                    f"{count} of {tokens} tokens stood in no list of {arm.label}'s server: their losses are "
                    "lower bounds, and so are the means that hold them",
                    {"arm": arm.arm, "probe": curve.probe, "tokens": tokens, "bounds": count},
                )
