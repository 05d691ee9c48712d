from __future__ import annotations

import hashlib
import json
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.measuring.fake_llm import BEGIN, FakeServer

from ropewalk.errors import UsageError
from ropewalk.measuring.recall import words
from ropewalk.measuring.recall.haystack import sentences
from ropewalk.measuring.recall.prompt import Builder, Prompt, longest_prompt
from ropewalk.measuring.recall.tasks import TASKS, find_task
from ropewalk.measuring.recall.vocabulary import Form, Vocabulary, make_frame

DEPTHS = (0.1, 0.3, 0.5, 0.7, 0.9)


def build(
    server: FakeServer,
    task: str = "niah_single",
    *,
    length: int = 1500,
    seed: int = 1,
    form: Form = "prefill",
    haystack: str = "prose",
    depths: tuple[float, ...] = DEPTHS,
) -> list[Prompt]:
    builder = Builder(Vocabulary(server), make_frame(server, form), haystack)
    return builder.prompts(TASKS[task], length=length, depths=depths, seed=seed)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("haystack", ["prose", "noise"])
@pytest.mark.parametrize("form", ["prefill", "chat", "completion"])
def test_every_task_fills_its_length_exactly(task: str, haystack: str, form: Form) -> None:
    prompts = build(FakeServer(), task, length=2500, haystack=haystack, form=form)
    assert {len(prompt.tokens) for prompt in prompts} == {2500}
    assert len(prompts) == (5 if TASKS[task].has_depth else 1)


@settings(max_examples=40, deadline=None)
@given(length=st.integers(400, 900), seed=st.integers(0, 10**6))
def test_any_length_is_met(length: int, seed: int) -> None:
    prompts = build(FakeServer(), length=length, seed=seed)
    assert {len(prompt.tokens) for prompt in prompts} == {length}


@pytest.mark.parametrize(("begin", "writes"), [(True, False), (True, True), (False, True)])
def test_a_start_token_stands_once_whoever_adds_it(begin: bool, writes: bool) -> None:
    server = FakeServer(begin=begin, writes_begin=writes)
    tokens = build(server)[0].tokens
    assert server.detokenize(tokens).count(BEGIN) == 1
    assert server.detokenize(tokens[:1]) == BEGIN
    doubled = Vocabulary(server).doubles_start(make_frame(server, "prefill").before)
    assert doubled == (begin and writes)


@pytest.mark.parametrize("depths", [DEPTHS, (0.0, 0.5, 1.0)])
def test_needles_stand_at_their_depth_in_tokens(depths: tuple[float, ...]) -> None:
    server = FakeServer()
    for prompt in build(server, length=3000, depths=depths):
        value = prompt.question.expected[0]
        text = server.detokenize(prompt.tokens)
        assert text.count(value) == 1
        assert prompt.needle_at is not None
        assert value in server.detokenize(prompt.tokens[prompt.needle_at : prompt.needle_at + 20])
        edge = 0.03 if prompt.question.depth in (0, 1) else 0.006  # template and question at the edges
        assert abs(prompt.needle_at / 3000 - prompt.question.depth) <= edge


def test_questions_of_a_haystack_share_all_but_their_end() -> None:
    prompts = build(FakeServer(), length=2000)
    shared = 0
    while len({prompt.tokens[shared] for prompt in prompts}) == 1:
        shared += 1
    assert shared > 1900


@pytest.mark.parametrize("task", TASKS)
def test_values_occur_once_and_only_in_their_needles(task: str) -> None:
    server = FakeServer()
    for prompt in build(server, task, length=3000):
        if not TASKS[task].has_depth:
            continue
        text = server.detokenize(prompt.tokens)
        for value in prompt.question.expected:
            is_chain, is_call = task in ("variable_tracking", "branching_chains"), task == "tool_call"
            named = json.loads(value)["arguments"]["reference"] if is_call else value
            assert text.count(named) == (text.count(f"VAR {value}") if is_chain else 1)
        assert not set(prompt.question.expected) & set(prompt.others)


def test_common_words_come_ten_times_as_often() -> None:
    server = FakeServer()
    (prompt,) = build(server, "common_words", length=4000)
    listed = server.detokenize(prompt.tokens).replace(",", " ").replace(".", " ").split()
    common = min(listed.count(word) for word in prompt.question.expected)
    rare = max(listed.count(word) for word in prompt.others)
    assert common >= 5 * rare


def test_the_same_seed_is_the_same_prompt_everywhere() -> None:
    """Golden: draws must not differ between Python versions, nor between servers of one tokenizer."""
    first, second = build(FakeServer()), build(FakeServer())
    assert [prompt.sha256 for prompt in first] == [prompt.sha256 for prompt in second]
    assert build(FakeServer(), seed=2)[0].sha256 != first[0].sha256
    text = " ".join(islice(sentences("prose", seed=1), 50))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "4b23a342cc6c9bae"
    assert first[0].question.expected == ("9517683",)


def test_start_token_is_kept_and_end_token_left_out() -> None:
    server = FakeServer(begin=True, end=True)
    tokens = build(server, form="completion")[0].tokens
    assert server.words[tokens[0]] == BEGIN
    assert server.ids["<|end|>"] not in tokens


def test_template_surrounds_the_text_and_the_answer_is_opened() -> None:
    server = FakeServer()
    text = server.detokenize(build(server)[0].tokens)
    key = build(server)[0].question.text.split()[-1].removesuffix("?")
    assert text.startswith(f"{BEGIN}<|user|>\nSome special magic numbers")
    assert text.endswith(f"?<|stop|>\n<|assistant|>\nThe special magic number for {key} is")


def test_a_model_without_template_is_asked_by_completion() -> None:
    server = FakeServer(template=False)
    assert make_frame(server, "prefill").form == "completion"
    assert "<|assistant|>" not in server.detokenize(build(server)[0].tokens)


def test_control_tokens_in_a_text_stay_text(tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text("He said <|stop|> to her. Then he left. " * 400)
    server = FakeServer()
    tokens = build(server, haystack=str(book))[0].tokens
    assert tokens.count(server.ids["<|stop|>"]) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [("Too short. A text.", "ends"), ("The number 5432101 is here. " * 3000, "contains the value")],
)
def test_a_text_that_cannot_serve_is_refused(
    tmp_path: Path, content: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = tmp_path / "book.txt"
    book.write_text(content)
    monkeypatch.setattr("ropewalk.measuring.recall.words.SeededRandom.digits", _numbers())
    with pytest.raises(UsageError, match=said):
        build(FakeServer(), haystack=str(book))


def test_unreadable_text_names_its_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        sentences(str(tmp_path / "nowhere.txt"), seed=1)


def test_a_length_without_room_says_how_much_is_needed() -> None:
    with pytest.raises(UsageError, match="no room") as caught:
        build(FakeServer(), length=100)
    least = caught.value.where["least"]
    assert {len(prompt.tokens) for prompt in build(FakeServer(), length=least)} == {least}


@pytest.mark.parametrize(("thinking", "haystack"), [(0, 130920), (16384, 114536)])
def test_prompt_template_and_answer_fit_the_context(thinking: int, haystack: int) -> None:
    """A context of 131,072 with 128 answer tokens and a template of 23 (NVIDIA/RULER#99)."""
    assert longest_prompt(131072, answer_tokens=128, thinking_tokens=thinking) - 23 == haystack


def test_prose_has_no_digits_and_no_key() -> None:
    text = " ".join(islice(sentences("prose", seed=7), 3000))
    assert not any(character.isdigit() for character in text)
    assert not set(words.KEYS) & set(text.replace(".", " ").replace(",", " ").split())
    assert len(set(words.KEYS)) == len(words.KEYS)


def test_unknown_task_lists_the_known() -> None:
    with pytest.raises(UsageError, match="niah_single"):
        find_task("niah_triple")


def _numbers() -> object:
    count = iter(range(5432101, 9999999))
    return lambda dice, digits: str(next(count))


class SpacePrefixing(FakeServer):
    """Puts a space before every text, as SentencePiece vocabularies of llama.cpp do (add_space_prefix)."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        return super().tokenize(f" {text}", add_special=add_special, parse_special=parse_special)


def test_sentences_join_with_one_space_whatever_the_tokenizer_adds() -> None:
    for server in (FakeServer(), SpacePrefixing()):
        prompt = build(server)[0]
        text = server.detokenize(prompt.tokens)
        assert len(prompt.tokens) == 1500
        assert "  " not in text.partition("\n\n")[2].partition("\n\n")[0].lstrip()
        assert ". The " in text
