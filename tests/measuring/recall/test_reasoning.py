"""Thoughts are kept out of the prompt where that can be done, and out of the answer in any case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.measuring.fake_llm import FakeServer

from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.measuring.recall.prompt import Builder
from ropewalk.measuring.recall.reasoning import after_reasoning, has_reasoning, open_reasoning
from ropewalk.measuring.recall.tasks import TASKS
from ropewalk.measuring.recall.vocabulary import Form, Thinking, Vocabulary, make_frame
from ropewalk.planner.records import Launch
from ropewalk.serving.launcher import start

# The switch of Qwen3's template: the thought is closed before it begins (Qwen/Qwen3-0.6B, tokenizer_config).
SWITCHED = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is defined and "
    "enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)


@pytest.mark.parametrize(
    ("content", "reasoning", "answer"),
    [
        ("", "... long ...", None),
        ("<think>the number is 48213 but let me", "", None),
        ("<think>x</think>48213", "", "48213"),
        ("48213", "...", "48213"),
        ("it was there</think> 48213", "", " 48213"),  # the template had opened the thought
    ],
)
def test_only_text_after_a_finished_thought_counts(content: str, reasoning: str, answer: str | None) -> None:
    """kekzl/imp#1442, scitix/sieval#11."""
    assert after_reasoning(content, reasoning=reasoning) == answer


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("<|im_start|>assistant\n", None),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", None),  # Qwen3, switched off
        ("<|Assistant|><think>\n", "</think>"),  # DeepSeek-R1
        ("<seed:bos>assistant\n<seed:think>", "</seed:think>"),
        ("[/INST][THINK]", "[/THINK]"),
        ("<think>a</think><think>b", "</think>"),
    ],
)
def test_a_thought_left_open_is_seen_with_the_tag_that_ends_it(text: str, tag: str | None) -> None:
    assert open_reasoning(text) == tag


@pytest.mark.parametrize(
    ("answer", "thought"),
    [("<think>x</think>1", True), ("so it is</think> 1", True), ("I think it is 1", False), ("", False)],
)
def test_a_thought_in_an_answer(answer: str, thought: bool) -> None:
    assert has_reasoning(answer) is thought


@pytest.mark.parametrize("form", ["prefill", "chat"])
@pytest.mark.parametrize(
    ("thinks", "thinking", "end"),
    [
        ("switch", "off", "<|assistant|>\n<think>\n\n</think>\n\n"),
        ("begins", "closed", "<|assistant|>\n<think>\n\n</think>\n\n"),
        ("", "unknown", "<|assistant|>\n"),
    ],
)
def test_the_answer_begins_after_the_thought(thinks: str, thinking: Thinking, end: str, form: Form) -> None:
    server = FakeServer(thinks=thinks)
    frame = make_frame(server, form)
    assert frame.thinking == thinking
    assert frame.after.endswith(end)
    prompts = Builder(Vocabulary(server), frame).prompts(
        TASKS["niah_single"], length=1500, depths=(0.5,), seed=1
    )
    opening = "" if form == "chat" else prompts[0].question.opening
    assert server.detokenize(prompts[0].tokens).endswith(end + opening)
    answer = server.complete(prompts[0].tokens, max_tokens=64, cache_prompt=False)
    assert not has_reasoning(answer.text)


@pytest.mark.engine
def test_a_real_server_hands_the_switch_to_the_template(
    smollm2: Path, smollm2_spec: Callable[..., Launch], tmp_path: Path
) -> None:
    model = tmp_path / "switched.gguf"
    old = open_checkpoint(smollm2).gguf["tokenizer.chat_template"].encode()
    model.write_bytes(smollm2.read_bytes().replace(old, SWITCHED.encode().ljust(len(old)), 1))
    spec = smollm2_spec(512)
    with start(
        replace(spec, model=str(model), argv=("-m", str(model), *spec.argv[2:])), log_path=tmp_path / "log"
    ) as server:
        frame = make_frame(server.client, "chat")
    assert frame.thinking == "off"
    assert frame.after.rstrip().endswith("<|im_start|>assistant\n<think>\n\n</think>")
