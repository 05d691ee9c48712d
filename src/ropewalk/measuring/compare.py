"""What the arms say together: pairs on identical prompts, one recommendation, one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from ropewalk.findings import Finding, has_error
from ropewalk.measuring.compare_losses import holds
from ropewalk.measuring.recall.reasoning import has_reasoning
from ropewalk.measuring.recall.statistics import BAR_POINT, LengthScore, mcnemar, smallest_detectable_drop
from ropewalk.measuring.recall.summary import by_length
from ropewalk.measuring.records import JUDGED, ArmResult, Comparison, Measurement, PairedRecall, Trial

Trials = Mapping[str, Sequence[Trial]]  # by arm, in the order of the arms

CERTIFYING_TRIALS = 30  # per length: five depths, six haystacks
MAX_MOVE = 0.03  # of the prompt: a needle further from its depth than this is told of
MIN_PROBES = 5  # prompts whose first token must agree before a scaling is called inactive
_SIGNIFICANT = 0.05


def compare(arms: Sequence[ArmResult], trials: Trials, *, target_len: int) -> Comparison:
    """The verdict for the longest length that any arm was judged at; no other length is spoken for."""
    scores = {arm.arm: {score.length: score for score in by_length(trials.get(arm.arm, ()))} for arm in arms}
    lengths = sorted({length for own in scores.values() for length in own})
    pairs = tuple(
        pair
        for length in lengths
        for first, second in combinations([arm.arm for arm in arms], 2)
        if (pair := paired_recall(trials.get(first, ()), trials.get(second, ()), length=length))
    )
    if not lengths:
        return Comparison(target_len, None, "no answer could be judged: no verdict", pairs)
    if not any(score.hits for own in scores.values() for score in own.values()):
        weak = f"nothing is recalled even at {lengths[0]:,} tokens: too weak for this task, no verdict"
        return Comparison(target_len, None, weak, pairs)
    length = lengths[-1]
    ranked = _ranked(arms, scores, length)
    best = _best(ranked)
    said = _gain(ranked, best, length, num_arms=len(arms))
    cost = _cost(best, pairs, scores, labels={arm.arm: arm.label for arm in arms}) if best else ""
    weight = _weight(ranked[0][1].trials, _p_value(ranked, pairs, length))
    return Comparison(target_len, best.arm if best else None, f"{said}{cost}; {weight}", pairs)


def is_positive(measurement: Measurement) -> bool:
    """Finished, without an error, and at the longest length that was judged some arm recalls enough; where
    only losses were read, that of some arm stays at its base up to the target."""
    judged: dict[int, dict[str, list[int]]] = {}
    for arm in measurement.arms:
        for cell in arm.cells:
            count = sum(number for outcome, number in cell.outcomes.items() if outcome in JUDGED)
            if count:
                hits_and_trials = judged.setdefault(cell.length, {}).setdefault(arm.arm, [0, 0])
                hits_and_trials[0] += cell.hits
                hits_and_trials[1] += count
    findings = [*measurement.findings, *(finding for arm in measurement.arms for finding in arm.findings)]
    if measurement.status != "finished" or has_error(findings):
        return False
    if not judged:
        return any(holds(arm) for arm in measurement.arms if arm.context_planned >= measurement.target_len)
    return any(hits >= BAR_POINT * trials for hits, trials in judged[max(judged)].values())


def compare_findings(arms: Sequence[ArmResult], trials: Trials) -> tuple[Finding, ...]:
    """What a reader must know before believing the comparison."""
    return (
        *_few_trials(trials),
        *_moved(trials),
        *_inactive(arms, trials),
        *_short_text(arms, trials),
        *_reasoning_findings(arms, trials),
    )


def paired_recall(first: Sequence[Trial], second: Sequence[Trial], *, length: int) -> PairedRecall | None:
    """Both arms on the very same token ids; None where they have none in common."""
    pairs = list(_paired(first, second, length=length))
    if not pairs:
        return None
    only_first = sum(one.outcome == "hit" != other.outcome for one, other in pairs)
    only_second = sum(other.outcome == "hit" != one.outcome for one, other in pairs)
    return PairedRecall(
        length=length,
        arm=first[0].arm,
        other=second[0].arm,
        pairs=len(pairs),
        only_arm=only_first,
        only_other=only_second,
        p_value=mcnemar(only_first, only_second),
        visible_drop=smallest_detectable_drop(len(pairs)),
    )


def _paired(
    first: Sequence[Trial], second: Sequence[Trial], *, length: int | None = None
) -> Iterable[tuple[Trial, Trial]]:
    others = {trial.prompt_sha256: trial for trial in second if trial.outcome in JUDGED}
    for trial in first:
        other = others.get(trial.prompt_sha256)
        if other and trial.outcome in JUDGED and length in (None, trial.length):
            yield trial, other


def _ranked(
    arms: Sequence[ArmResult], scores: Mapping[str, Mapping[int, LengthScore]], length: int
) -> list[tuple[ArmResult, LengthScore]]:
    """The arms that were judged at this length, best first."""
    judged = [(arm, scores[arm.arm][length]) for arm in arms if length in scores[arm.arm]]
    return sorted(judged, key=lambda pair: -pair[1].share)


def _best(ranked: Sequence[tuple[ArmResult, LengthScore]]) -> ArmResult | None:
    """The arm that recalls more than every other one; None where two are level or none recalls."""
    arm, score = ranked[0]
    level = len(ranked) > 1 and ranked[1][1].share == score.share
    return None if level or score.hits == 0 else arm


def _p_value(
    ranked: Sequence[tuple[ArmResult, LengthScore]], pairs: Sequence[PairedRecall], length: int
) -> float | None:
    """McNemar's p of the best against the second best."""
    leading = {arm.arm for arm, _ in ranked[:2]}
    return next(
        (pair.p_value for pair in pairs if pair.length == length and {pair.arm, pair.other} == leading), None
    )


def _gain(
    ranked: Sequence[tuple[ArmResult, LengthScore]], best: ArmResult | None, length: int, *, num_arms: int
) -> str:
    """Who recalls how much at the longest length."""
    score = ranked[0][1]
    others = [f"{other.hits} of {other.trials} {arm.label}" for arm, other in ranked[1:]]
    if best is None:
        everyone = ", ".join([f"{score.hits} of {score.trials} {ranked[0][0].label}", *others])
        return f"at {length:,} tokens no arm leads: {everyone}"
    alone = "; no other arm serves this length" if num_arms > 1 else ""
    against = f", against {' and '.join(others)}" if others else alone
    return f"for {length:,} tokens {best.label}: {score.hits} of {score.trials} recalled{against}"


def _cost(
    best: ArmResult,
    pairs: Sequence[PairedRecall],
    scores: Mapping[str, Mapping[int, LengthScore]],
    *,
    labels: Mapping[str, str],
) -> str:
    """What the choice costs at the shortest length that it shares with the arm as shipped."""
    short = next((pair for pair in pairs if (pair.arm, pair.other) == ("shipped", best.arm)), None)
    if short is None:
        return ""
    ours, theirs = (scores[name][short.length] for name in (best.arm, "shipped"))
    shown = ": worse there" if short.p_value < _SIGNIFICANT and ours.hits < theirs.hits else ""
    return (
        f"; at {short.length:,} tokens {ours.hits} of {ours.trials}, "
        f"against {theirs.hits} of {theirs.trials} {labels['shipped']}{shown}"
    )


def _weight(trials: int, p_value: float | None) -> str:
    if trials < CERTIFYING_TRIALS:
        return f"{trials} {'trial' if trials == 1 else 'trials'} per length: indicative only"
    if p_value is None:
        return f"{trials} trials"
    return f"{trials} trials, p = {p_value:.2g}{'' if p_value < _SIGNIFICANT else ': no difference is shown'}"


def _few_trials(trials: Trials) -> Iterable[Finding]:
    counts = {score.trials for own in trials.values() for score in by_length(own)}
    if counts and min(counts) < CERTIFYING_TRIALS:
        yield Finding(
            "few_trials",
            "info",
            f"{min(counts)} judged trials at a length: an interval of 95 % is wide, and no effective context "
            f"can be claimed with fewer than 12 hits of 12",
            {"trials": min(counts)},
        )


def _moved(trials: Trials) -> Iterable[Finding]:
    """In a short prompt the question takes the place of a late needle, which then begins earlier."""
    places: dict[tuple[int, float], list[float]] = {}
    for own in trials.values():
        for trial in own:
            if trial.needle_at is not None:
                at = trial.needle_at / trial.length
                places.setdefault((trial.length, trial.depth), []).append(at)
    for (length, depth), found in sorted(places.items()):
        farthest = max(found, key=lambda at: abs(at - depth))
        if abs(farthest - depth) > MAX_MOVE:
            yield Finding(
                "needle_moved",
                "info",
                f"at {length:,} tokens a needle of depth {depth:g} begins at {farthest:.2f}: the question "
                "and the needles beside it need the room",
                {"length": length, "depth": depth, "begins_at": round(farthest, 3)},
            )


def _inactive(arms: Sequence[ArmResult], trials: Trials) -> Iterable[Finding]:
    """Two rope settings that compute the same: the engine has ignored one of them."""
    for first, second in combinations(arms, 2):
        if _scaling(first) == _scaling(second):
            continue
        pairs = list(_paired(trials.get(first.arm, ()), trials.get(second.arm, ())))
        if len(pairs) >= MIN_PROBES and all(
            one.first_logprob is not None and one.first_logprob == other.first_logprob for one, other in pairs
        ):
            yield Finding(
                "rope_scaling_inactive",
                "error",
                f"{first.label} and {second.label} answer {len(pairs)} prompts with the same probabilities: "
                "the engine does not apply the scaling to this model",
                {"arms": [first.arm, second.arm], "prompts": len(pairs)},
            )


def _scaling(arm: ArmResult) -> tuple[str | None, float | None] | None:
    """What was added to the checkpoint's own rotation."""
    return (arm.rope.type, arm.rope.factor) if arm.rope and arm.rope.decision == "scale" else None


def _short_text(arms: Sequence[ArmResult], trials: Trials) -> Iterable[Finding]:
    """What scaling costs short prompts cannot be told from few pairs; say how much could hide."""
    shipped = next((arm for arm in arms if arm.arm == "shipped"), None)
    if shipped is None:
        return
    for arm in arms:
        pairs = list(_paired(trials.get(shipped.arm, ()), trials.get(arm.arm, ())))
        is_changed = _scaling(arm) is not None or "+" in arm.arm  # a cache type of its own
        if arm is shipped or not is_changed or not pairs:
            continue
        shortest = min(one.length for one, _ in pairs)
        count = sum(one.length == shortest for one, _ in pairs)
        drop = smallest_detectable_drop(count)
        hidden = f"a drop of less than {drop:.0%}" if drop else "any drop"
        yield Finding(
            "short_text_undecided",
            "info",
            f"{count} pairs at {shortest:,} tokens: {hidden} on short text by {arm.label} would go unseen",
            {"arm": arm.arm, "length": shortest, "pairs": count},
        )


def _reasoning_findings(arms: Sequence[ArmResult], trials: Trials) -> Iterable[Finding]:
    """Reasoning is switched off in the prompt; an answer that contains some shows that it was not."""
    for arm in arms:
        own = [trial for trial in trials.get(arm.arm, ()) if trial.answer]
        count = sum(has_reasoning(trial.answer) for trial in own)
        if count:
            yield Finding(
                "reasoning_not_disabled",
                "warning",
                f"{arm.label} reasoned in {count} of {len(own)} answers, though it was asked not to: what "
                "it recalls is that of its reasoning, and needs a larger --answer-tokens",
                {"arm": arm.arm, "answers": count, "of": len(own)},
            )
