"""Tasks beyond needles: what each hides, asks and takes for right."""

from __future__ import annotations

import json
import re

import pytest

from ropewalk.measuring.recall.judge import score, score_json
from ropewalk.measuring.recall.tasks import TASKS, Draft
from ropewalk.measuring.recall.tasks.counting import KINDS
from ropewalk.measuring.recall.words import SeededRandom

DEPTHS = (0.0, 0.3, 0.5, 0.9, 1.0)
SEEDS = range(1, 9)


def draft_of(name: str, seed: int = 1) -> Draft:
    return TASKS[name].draft(SeededRandom(seed, name, 1000), DEPTHS)


def words_of(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 3}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_latent_question_shares_no_word_with_its_needle(seed: int) -> None:
    draft = draft_of("latent_association", seed)
    for question in draft.questions:
        assert question.needle is not None
        needle = draft.needles[question.needle]
        assert not words_of(needle.text) & words_of(f"{question.text} {question.opening}")
        assert question.expected[0] in needle.text
    assert len(set(draft.values)) == len(DEPTHS)


@pytest.mark.parametrize("number", [2, 4, 8])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_note_asked_for_stands_at_its_depth_and_in_its_place(number: int, seed: int) -> None:
    draft = draft_of(f"nth_of_{number}", seed)
    assert len(draft.needles) == number * len(DEPTHS) == len(draft.values)
    for question in draft.questions:
        assert question.needle is not None
        ordinal, key = re.findall(r"the (\w+) note about (\w+)", question.text)[0]
        kind = sorted((n for n in draft.needles if f"about {key} " in n.text), key=lambda n: n.depth)
        at = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth").index(ordinal)
        assert kind[at].depth == question.depth
        assert question.expected[0] in kind[at].text
        assert len({needle.depth for needle in kind}) == number  # their order is never in doubt


@pytest.mark.parametrize("seed", SEEDS)
def test_entries_are_as_many_as_is_expected(seed: int) -> None:
    draft = draft_of("count_entries", seed)
    (question,) = draft.questions
    kind = next(kind for kind in KINDS if kind in question.opening)
    assert question.expected == (str(sum(kind in needle.text for needle in draft.needles)),)
    assert score(f" {question.expected[0]}.", question.expected).outcome == "hit"
    assert score(" 1.", question.expected).outcome == "miss"
    most = draft_of("most_entries", seed)
    counts = {kind: sum(kind in needle.text for needle in most.needles) for kind in KINDS}
    assert [kind for kind in KINDS if counts[kind] == max(counts.values())] == list(
        most.questions[0].expected
    )
    assert max(counts.values()) == 9


def test_a_tree_branches_and_all_of_it_is_asked_for() -> None:
    draft = draft_of("branching_chains")
    sources: dict[str, list[str]] = {}
    for needle in draft.needles:
        name, source = re.findall(r"^VAR (\w+) = (?:VAR )?(\w+)\.$", needle.text)[0]
        sources.setdefault(source, []).append(name)
    for question in draft.questions:
        value = re.findall(r"\d{5}", question.text)[0]
        (root,) = sources[value]
        assert len(sources[root]) == 2  # the branching
        reached = [root, *sources[root], *(leaf for one in sources[root] for leaf in sources[one])]
        assert set(reached) == set(question.expected)


def test_a_tool_call_is_json_and_nothing_beside_it() -> None:
    draft = draft_of("tool_call")
    question = draft.questions[1]
    right = question.expected[0]
    reference = json.loads(right)["arguments"]["reference"]
    assert question.needle is not None
    assert reference in draft.needles[question.needle].text
    others = tuple(value for value in draft.values if value != right)
    assert score_json(f" {right}", right, others=others).outcome == "hit"
    assert score_json(right.replace(" ", ""), right).outcome == "hit"
    assert score_json(f"```json\n{right}\n```", right).outcome == "miss"
    assert score_json(f"Sure: {right}", right).detail == "the right JSON with something beside it"
    assert score_json(others[0], right, others=others).outcome == "wrong_needle"
    assert score_json(right.replace("reference", "ref"), right).outcome == "miss"
    assert score_json("", right).detail == "the answer is empty"
