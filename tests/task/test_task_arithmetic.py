"""The built-in task: hand-computed chains, a verifier that demands the whole form, splits without overlap."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from scalerl.errors import UserError
from scalerl.task.arithmetic import (
    Chain,
    Operation,
    arithmetic_task,
    arithmetic_tokenizer,
    draw_chain,
    verify_arithmetic,
)
from scalerl.task.arithmetic_teacher import Teacher, TeacherSettings
from scalerl.task.protocol import Example
from scalerl.task.tokenizer import SymbolTokenizer

CHAIN = Chain(3, (Operation("+", 4), Operation("x", 5), Operation("-", 2)))  # 3 -> 7 -> 35 -> 33, modulo 10


def test_a_chain_by_hand():
    assert CHAIN.text == "3+4ax5b-2c"
    assert CHAIN.answer == 3
    assert Chain(1, (Operation("-", 5),)).answer == 6
    hard = Chain(4, (Operation("*", 27), Operation("*", 3)))  # 4 x 2 + 7 = 15, 5 x 0 + 3
    assert (hard.text, hard.answer) == ("4*27a*03b", 3)


@pytest.mark.parametrize(
    ("completion", "passed"),
    [
        ("a7b5c3</think>3<end>", True),
        ("a+47bx55c-23</think>3<end>", True),
        ("</think>3<end>", True),  # the thinking itself isn't judged
        ("a7b5~</think>3<end>", True),  # nor is an interruption a fault
        ("a7b5c3</think>4<end>", False),
        ("a7b5c3</think>3", False),  # no end token
        ("a7b5c3</think>33<end>", False),
        ("a7b5c33<end>", False),  # thinking not closed
        ("</think></think>3<end>", False),
        ("<end></think>3<end>", False),
        ("a7</think>3<end>3<end>", False),
        ("", False),
    ],
)
def test_the_verifier_demands_the_whole_form(completion, passed):
    (judgement,) = verify_arithmetic([Example("1", CHAIN.text, "3")], [completion])
    assert judgement is not None
    assert judgement.passed is passed
    assert judgement.reward == (1.0 if passed else -1.0)


def test_training_and_held_out_share_no_prompt():
    task = arithmetic_task(train_prompts=500, held_out_prompts=100)
    ids = [example.id for example in task.train + task.held_out]
    prompts = {example.prompt for example in task.train + task.held_out}
    assert len(task.train) == 500
    assert len(set(ids)) == len(prompts) == len(ids) == 600
    assert task == arithmetic_task(train_prompts=500, held_out_prompts=100)
    assert task.held_out != arithmetic_task(train_prompts=500, held_out_prompts=100, seed=1).held_out


def test_held_out_prompts_are_as_short_as_the_others():
    """Distinct short chains run out while prompts are drawn: held out first, they'd be many more."""
    task = arithmetic_task(train_prompts=8000, held_out_prompts=2000, min_operations=1)
    held_out, train = (
        sum(sum(c.isalpha() and c != "x" for c in example.prompt) == 1 for example in part) / len(part)
        for part in (task.held_out, task.train)
    )
    assert 0 < train < 0.09
    assert abs(held_out - train) < 0.02


def test_impossible_sizes_are_refused():
    with pytest.raises(UserError, match="distinct chains"):
        arithmetic_task(train_prompts=2000, held_out_prompts=10, min_operations=1, max_operations=1)
    with pytest.raises(UserError, match="max_operations=0"):
        arithmetic_task(max_operations=0)
    with pytest.raises(UserError, match="held_out_prompts=0"):
        arithmetic_task(held_out_prompts=0)


def test_the_tokenizer_is_transformers_own_too(tmp_path):
    tokenizer = arithmetic_tokenizer()
    text = "3+4ax5b-2c=<think>a7b~</think>3<end>"
    tokens = tokenizer.tokens(text)
    assert tokenizer.decode(tokens) == text
    tokenizer.save(tmp_path)
    assert SymbolTokenizer.load(tmp_path) == tokenizer
    assert tuple(AutoTokenizer.from_pretrained(tmp_path)(text)["input_ids"]) == tokens
    with pytest.raises(UserError, match="'q'"):
        tokenizer.tokens("3q")


@given(seed=st.integers(0, 10_000))
def test_a_perfect_teacher_is_always_right(seed):
    teacher = Teacher(TeacherSettings(mean_skill=50.0, skill_spread=0.0, interrupted_share=0.0), seed)
    chain = draw_chain(random.Random(seed), 1, 8)
    prompt, injected, completion = teacher.demonstrate(random.Random(seed), chain)
    assert injected == ""
    assert prompt == f"{chain.text}=<think>"
    (judgement,) = verify_arithmetic([Example("1", chain.text, str(chain.answer))], [completion])
    assert judgement is not None
    assert judgement.passed


def test_the_teacher_s_thinking_varies_in_length():
    teacher = Teacher(TeacherSettings(interrupted_share=0.0), 0)
    rng = random.Random(0)
    lengths = {len(teacher.demonstrate(rng, CHAIN)[2]) for _ in range(200)}
    assert len(lengths) == 4  # none to three steps written with their operation


def test_an_interrupted_demonstration_ends_with_the_answer():
    teacher = Teacher(TeacherSettings(interrupted_share=1.0), 0)
    _, injected, completion = teacher.demonstrate(random.Random(0), CHAIN)
    assert injected.endswith("~</think>")
    assert len(completion) == len("3<end>")
