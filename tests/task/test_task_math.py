"""Extraction, the quick matcher, the table of pairs, hostile answers, throughput."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl.task import answer as extract
from scalerl.task import benchmark
from scalerl.task.answer_pairs import PAIRS
from scalerl.task.match import as_number, normalise, quick_match
from scalerl.task.math_verifier import MathVerifier
from scalerl.task.protocol import Example


@pytest.fixture(scope="module")
def verifier():
    made = MathVerifier(limit_seconds=1.0, workers=2)
    made.pool.map([("operator:add", (1, 2))])  # the template's imports take seconds, once
    yield made
    made.close()


def example(answer):
    return Example(id="x", prompt="?", answer=answer)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>\\boxed{1}</think>So \\boxed{2}<|im_end|>", "2"),
        ("so \\boxed{\\frac{1}{2}} or \\boxed{\\frac{3}{4}}.</s>", "\\frac{3}{4}"),
        ("\\boxed{7} and then \\boxed{unclosed", "7"),
        ("\\fbox{ 9 }<|endoftext|><|endoftext|>", "9"),
        ("\\boxed{\\{1,2\\}}", "\\{1,2\\}"),
        ("It costs 3. The answer is 42.", "42"),
        ("The final answer is: $x=7$. I hope it helps.", "x=7"),
        ("blah\n#### 1,234\n", "1,234"),
        ("<answer>12</answer>", "12"),
        ("We get $a=1$ and $b=2$", "b=2"),
        ("There are 3 cats and 14 dogs", "14"),
        ("<think>still going \\boxed{3}", None),
        ("<think>a</think>", None),
        ("no idea", None),
        ("5<|end▁of▁sentence|>".replace("|", "\uff5c"), "5"),
    ],
)
def test_final_answer(text, answer):
    assert extract.final_answer(text) == answer


def test_thinking_opened_by_the_prompt_must_close():
    assert extract.final_answer("hm \\boxed{3}", must_close_thinking=True) is None
    assert extract.final_answer("hm</think>\\boxed{3}", must_close_thinking=True) == "3"


@given(st.text(alphabet="ab {}\\$", max_size=40))
def test_boxed_content_round_trips(content):
    balanced = extract._braced("{" + content + "}", 0)
    if balanced == content:
        assert extract.last_boxed("so \\boxed{" + content + "} done") == content.strip()


@given(st.integers(-(10**9), 10**9), st.integers(1, 999))
def test_numbers_equal_themselves_in_other_clothes(n, d):
    assert quick_match(str(n), f"{n:,}") is True
    assert quick_match(f"\\frac{{{n}}}{{{d}}}", f"{n}/{d}") is True
    assert quick_match(str(n), str(n + d)) is False


@settings(max_examples=300)
@given(st.text(max_size=60))
def test_normalising_is_total(text):
    as_number(normalise(text))
    assert quick_match(text or "x", text or "x") in (True, False)


def test_table_of_pairs():
    """At least 99% of the table; what is not judged as the table says is listed in the failure."""
    examples = [example(gold) for gold, _, _ in PAIRS]
    texts = [f"Thus \\boxed{{{answer}}}" if "\\boxed" not in answer else answer for _, answer, _ in PAIRS]
    patient = MathVerifier(limit_seconds=30.0, workers=2)  # the table tests judgement, on a busy machine too
    judged = patient(examples, texts)
    patient.close()
    off = [pair for pair, j in zip(PAIRS, judged, strict=True) if j is None or j.passed is not pair[2]]
    assert len(PAIRS) >= 150
    assert len(off) <= 0.01 * len(PAIRS), off
    assert all(j.reward == (1.0 if j.passed else -1.0) for j in judged if j)


HOSTILE = {
    "tower": "\\boxed{9^{9^{9^9}}}",
    "tower of plain powers": "\\boxed{9**9**9**9**9}",
    "factorials": "\\boxed{((((9!)!)!)!)!}",
    "factorial of a big number": "\\boxed{100000000!}",
    "huge exponent": "\\boxed{1e999999999}",
    "huge power": "\\boxed{10^{1000000000}}",
    "megabyte of nested braces": "\\boxed{" + "{" * 500_000 + "}" * 500_000 + "}",
    "megabyte of open braces": "\\boxed" + "{" * 1_000_000,
    "boxes in boxes": "\\boxed{" * 100_000 + "7",
    "deep fractions": "\\boxed{" + "\\frac{1}{" * 150 + "2" + "}" * 150 + "}",
    "deep parentheses": "\\boxed{" + "(" * 900 + "1" + ")" * 900 + "}",
    "a hundred thousand digits": "\\boxed{" + "7" * 100_000 + "}",
    "long sum": "\\boxed{" + "+".join(["x^{99}"] * 250) + "}",
    "big matrix": "\\boxed{\\begin{pmatrix}" + "\\\\".join(["1&2&3"] * 100) + "\\end{pmatrix}}",
    "infinite sum": "\\boxed{\\sum_{n=1}^{\\infty}\\frac{\\sin(n^{n})}{n!}}",
    "nasty integral": "\\boxed{\\int_0^{100000} x^{x^{x^x}} dx}",
    "python in disguise": "\\boxed{__import__('os').system('touch /tmp/owned')}",
    "says it is right": "The answer is correct. All tests passed. reward=1",
    "null bytes": "\\boxed{\x00\x00}",
    "spaces": "\\boxed{" + " " * 1_000_000 + "}",
    "equals chain": "\\boxed{" + "=" * 1900 + "}",
    "answer phrases": "answer is " * 100_000,
    "dollars": "$" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_answers_are_wrong_or_failed_within_the_limit(verifier, name):
    start = time.monotonic()
    judged = verifier([example("\\frac{\\sqrt{7}}{12}")], [HOSTILE[name]])[0]
    assert time.monotonic() - start < 30, "far beyond the limit of 1 s"
    assert judged is None or not judged.passed
    assert verifier.pool.map([("operator:add", (1, 2))] * 3)[-1].value == 3  # the pool goes on


def test_simple_answers_a_second():
    measured = benchmark.simple_answers(4000)
    assert measured.as_wanted == 4000
    assert measured.per_cpu_second > 2000, measured
