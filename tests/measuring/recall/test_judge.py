from __future__ import annotations

import pytest

from ropewalk.measuring.recall.judge import judge, normalise, score
from ropewalk.measuring.recall.prompt import Prompt
from ropewalk.measuring.recall.tasks import TASKS, Question
from ropewalk.measuring.records import Outcome
from ropewalk.serving.client import Completion


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("The code is 3677.", "hit"),
        ("3,677", "hit"),
        ("three thousand six hundred seventy-seven", "miss"),
        ("36771", "miss"),
        ("I could not find it, maybe 3678 or 3677?", "miss"),
        ("The code is **3677**", "hit"),
        ("3677.5", "miss"),
        ("3677 and 1234", "wrong_needle"),
        ("1234", "wrong_needle"),
        ("", "miss"),
        ("I'm sorry, but I can't share that.", "declined"),
        ("As an AI I do not keep numbers.", "declined"),
        ("I cannot be sure, but it is 3677.", "hit"),
        ("I cannot be sure, but it is 3678.", "miss"),
    ],
)
def test_retrieval_is_scored_not_wording(answer: str, outcome: Outcome) -> None:
    """Neroued/ninfer#171, gkamradt/needle-in-a-haystack#39, NVIDIA/RULER#100."""
    assert score(answer, ("3677",), others=("1234",)).outcome == outcome


def test_all_candidates_listed_is_no_hit() -> None:
    values = ("1234567", "7654321", "1111111")
    verdict = score(" 1234567, 7654321, 1111111.", values[:1], others=values[1:])
    assert verdict.outcome == "wrong_needle"
    assert verdict.found == 1


def test_several_values_are_all_needed() -> None:
    assert score("ABCDE, FGHIJ", ("ABCDE", "FGHIJ")).outcome == "hit"
    half = score("abcde only", ("ABCDE", "FGHIJ"))
    assert (half.outcome, half.found, half.detail) == ("miss", 1, "1 of 2 values")


def test_exact_copy_is_compared_character_by_character() -> None:
    value = '{"id": "0a1b2c", "port": 5021}'
    assert score(f" {value}.", (value,), exact=True).outcome == "hit"
    assert score(' {"id": "0A1B2C", "port": 5021}', (value,), exact=True).outcome == "miss"


def test_thousands_separators_only_where_they_group() -> None:
    assert normalise("1,234,567 and 1,23 and 12,3456") == "1234567 and 1,23 and 12,3456"


@pytest.mark.parametrize(
    ("planned", "counted", "generated", "truncated", "context_len", "outcome"),
    [
        (12000, 2050, 8, False, 4096, "invalid"),  # ollama#18399: half a window was evaluated
        (511, 511, 1, True, 512, "truncated"),  # llama-server b11434, measured
        (500, 500, 40, True, 512, "invalid"),  # llama-server --context-shift
        (12000, None, 8, False, 16384, "invalid"),
        (12000, 12004, 8, False, 16384, "invalid"),  # tokens were sent, so the count must be exact
        (12000, 12000, 8, False, 16384, "hit"),
    ],
)
def test_what_the_server_counted_comes_first(
    planned: int, counted: int | None, generated: int, truncated: bool, context_len: int, outcome: Outcome
) -> None:
    completion = _completion(" 1234567.", generated, counted=counted, truncated=truncated)
    assert _judge(completion, planned=planned, context_len=context_len) == outcome


def test_an_answer_cut_by_its_budget_is_no_miss() -> None:
    """vLLM completes 16 tokens by default: a UUID never ends (llama-cpp-python#1128)."""
    uuid = "9f1c2e34-7a55-4b0e-9d1f-0c6f7a2b8e11"
    cut = _completion(f" {uuid[:22]}", 16, finish="length")
    assert _judge(cut, expected=uuid, max_tokens=48) == "truncated"
    assert _judge(cut, expected=uuid, max_tokens=16) == "truncated"


def test_babble_up_to_the_budget_is_a_miss_after_an_opening_only() -> None:
    babble = _completion(" the sea and the sea and the sea", 16, finish="length")
    assert _judge(babble) == "miss"
    assert _judge(babble, opened=False) == "truncated"


def test_a_list_that_the_budget_cuts_is_no_hit() -> None:
    assert _judge(_completion(" 1234567, 76543", 16, finish="length")) == "wrong_needle"


def test_the_value_before_the_budget_ends_is_a_hit() -> None:
    assert _judge(_completion(" 1234567. This is the number of", 16, finish="length")) == "hit"


def _completion(
    text: str, generated: int, *, counted: int | None = 100, truncated: bool = False, finish: str = "stop"
) -> Completion:
    return Completion(
        text=text,
        tokens=(0,) * generated,
        prompt_tokens=counted,
        cached_tokens=0,
        prefill_seconds=1.0,
        decode_tokens_per_second=10.0,
        truncated=truncated,
        finish=finish,
    )


def _judge(
    completion: Completion,
    *,
    planned: int = 100,
    expected: str = "1234567",
    max_tokens: int = 16,
    context_len: int = 16384,
    opened: bool = True,
) -> Outcome:
    question = Question(0.5, "", "", (expected,), 0)
    prompt = Prompt((0,) * planned, "", question, ("7654321",), 10)
    task = TASKS["niah_single"]
    return judge(
        completion, prompt, task=task, max_tokens=max_tokens, context_len=context_len, opened=opened
    ).outcome
