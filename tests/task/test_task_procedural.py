"""reasoning-gym with its own scorers, reward functions of the user's, the guard, prompts."""

import json
import os
import sys
import types

import pytest
from character_model import character_tokenizer

from scalerl.errors import UserError
from scalerl.task.build import build_evaluation_set, build_prompter, build_task
from scalerl.task.custom_reward import CustomRewardVerifier
from scalerl.task.evaluate import Sampled, evaluate
from scalerl.task.pool import KillablePool
from scalerl.task.procedural import ProceduralVerifier, answer_text, procedural_examples
from scalerl.task.prompter import ChatPrompter
from scalerl.task.protocol import Example
from scalerl.task.spec import PromptStyle
from scalerl.task.tokenizer import SymbolTokenizer

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


# --- reasoning-gym


@pytest.fixture(scope="module")
def chain_sum():
    made = ProceduralVerifier("chain_sum", {"min_terms": 2, "max_terms": 3}, limit_seconds=30, workers=1)
    yield made
    made.pool.close()


def test_own_scorer_decides(chain_sum):
    drawn = procedural_examples("chain_sum", 4, {"min_terms": 2, "max_terms": 3}, seed=1, instruction=None)
    right = [f"<think>hm</think>so <answer>{e.answer}</answer><eos>" for e in drawn]
    assert all(j.passed and j.reward == 1.0 for j in chain_sum(drawn, right))
    wrong = [f"<answer>{int(e.answer) + 1}</answer>" for e in drawn]
    assert not any(j.passed for j in chain_sum(drawn, wrong))
    bare = chain_sum(
        [drawn[0]] * 3, [drawn[0].answer, f"\\boxed{{{drawn[0].answer}}}", "<think>never closed"]
    )
    assert [j.passed for j in bare] == [True, True, False]


def test_answer_text():
    assert answer_text("<answer>1</answer> or <answer> 2 </answer>") == "2"
    assert answer_text("a</think>b") == "b"
    assert answer_text("a", must_close_thinking=True) is None
    assert answer_text("</answer>" * 1000 + "<answer>" * 1000) is not None


def test_scorer_that_evaluates_python_is_guarded(tmp_path):
    drawn = procedural_examples("countdown", 1, {}, seed=0, instruction=None)
    target = tmp_path / "escaped"
    verifier = ProceduralVerifier("countdown", {}, limit_seconds=30, workers=1)
    texts = [
        f"<answer>open('{target}', 'w')</answer>",
        f"<answer>eval(\"__import__('os').system('touch {target}')\")</answer>",
        f"<answer>{drawn[0].payload['entry']['metadata']['expression']}</answer>",
    ]
    judged = verifier([drawn[0]] * 3, texts)
    verifier.pool.close()
    assert not target.exists()
    assert [bool(j and j.passed) for j in judged] == [False, False, True]


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('touch {0}')",
        "open('{0}', 'w')",
        "__import__('subprocess').run(['touch', '{0}'])",
        "__import__('socket').socket()",
        "__import__('ctypes').CDLL(None).getpid()",
        "__import__('os').fork()",
    ],
)
def test_guard_refuses(tmp_path, expression):
    with KillablePool(workers=1, limit_seconds=30, guarded=True) as pool:
        got = pool.map([("builtins:eval", (expression.format(tmp_path / "x"),)), ("operator:add", (1, 1))])
    assert got[0].failure.startswith("Refused")
    assert got[1].value == 2
    assert not (tmp_path / "x").exists()


def test_procedural_task_is_split_and_reproducible():
    spec = "reasoning_gym:chain_sum,train_prompts=20,held_out_prompts=5,seed=3"
    first, second = build_task(spec), build_task(spec)
    assert [e.id for e in first.train] == [e.id for e in second.train]
    assert len(first.held_out) == 5
    assert not {e.id for e in first.train} & {e.id for e in first.held_out}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("reasoning_gym:no_such_task", "chain_sum"),
        ("reasoning_gym:chain_sum,no_such=1", "no_such"),
        ("reasoning_gym:chain_sum,min_terms=9,max_terms=2", "chain_sum"),
    ],
)
def test_procedural_mistakes(spec, reason):
    with pytest.raises(UserError, match=reason):
        build_task(spec)


# --- reward functions


def test_reward_function(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import time\n"
        "def reward(completion, example):\n"
        "    if completion == 'hang': time.sleep(60)\n"
        "    if completion == 'crash': raise ValueError('no')\n"
        "    if completion == 'text': return 'good'\n"
        "    if completion == 'yes': return True\n"
        "    return 0.25 if completion == example.answer else -0.5\n"
    )
    verifier = CustomRewardVerifier(f"{file}:reward", limit_seconds=3, workers=2)
    texts = ["42<|im_end|>", "41", "crash", "text", "hang", "yes"]
    judged = verifier([Example("x", "?", "42")] * 6, texts)
    verifier.pool.close()
    assert [None if j is None else (j.passed, j.reward) for j in judged] == [
        (True, 0.25), (False, -0.5), None, None, None, (True, 1.0),
    ]  # fmt: skip
    for bad, reason in [
        ("nowhere.py:f", "nowhere"),
        (f"{file}:other", "other"),
        ("file.py", "file.py:function"),
    ]:
        with pytest.raises(UserError, match=reason):
            CustomRewardVerifier(bad)


def test_environment_without_the_package_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "verifiers", None)
    with pytest.raises(UserError, match="verifiers"):
        build_task("environment:gsm8k")


def test_environment_scores_by_its_own_rewards(tmp_path, monkeypatch):
    """With the package where it is installed; its interface is checked there, not imitated."""
    pytest.importorskip("verifiers.v1")
    (tmp_path / "toy_sums.py").write_text(
        "import verifiers.v1 as vf\n"
        "class SumData(vf.TaskData):\n    answer: str = ''\n"
        "class SumTask(vf.Task[SumData]):\n"
        "    @vf.reward\n"
        "    async def right(self, trace) -> float:\n"
        "        return float(trace.last_reply == self.data.answer)\n"
        "class Sums(vf.Taskset[SumTask, vf.TasksetConfig]):\n"
        "    def load(self):\n"
        "        for n in range(6):\n"
        "            yield SumTask(SumData(prompt=f'{n}+{n}=', answer=str(2 * n)))\n"
        "__all__ = ['Sums']\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    task = build_task("environment:toy_sums,held_out_prompts=2,verifier_seconds=60")
    first = task.train[0]
    digit = int(first.prompt[0])
    judged = task.verifier([first, first], [f"<think>x</think>{2 * digit}<|im_end|>", "nope"])
    assert [j.passed for j in judged] == [True, False]


# --- prompts


def test_plain_prompt_and_round_trip(tmp_path):
    character_tokenizer().save_pretrained(tmp_path)
    prompter = ChatPrompter.load(tmp_path, PromptStyle(system="Be brief."))
    example = Example("x", "1+1=?", "2")
    assert prompter.render(example) == "Be brief.\n\n1+1=?\n"
    assert prompter.decode(prompter.encode(example)) == prompter.render(example)
    assert prompter.decode([prompter.end_token]) == "<eos>"
    assert prompter.decode(prompter.close_thinking) == "</think>"
    assert not prompter.opens_thinking


def test_chat_prompt_ends_where_the_thinking_begins():
    example = Example("x", "1+1=?", "2")
    thinker = ChatPrompter(
        character_tokenizer(("<think>", "</think>"), chat_template=CHATML), PromptStyle(system="S")
    )
    assert thinker.render(example) == (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n1+1=?<|im_end|>\n<|im_start|>assistant\n<think>\n"
    )
    assert len(thinker.close_thinking) == 1
    assert thinker.decode([thinker.end_token]) == "<|im_end|>"
    plain = ChatPrompter(character_tokenizer(chat_template=CHATML))
    assert plain.render(example).endswith("assistant\n")
    opened = ChatPrompter(character_tokenizer(chat_template=CHATML), PromptStyle(thinking="open"))
    assert opened.render(example).endswith("assistant\n<think>\n")
    assert len(opened.close_thinking) == len("</think>")
    off = ChatPrompter(
        character_tokenizer(("<think>", "</think>"), chat_template=CHATML), PromptStyle(thinking="off")
    )
    assert off.render(example).endswith("assistant\n")


def test_template_that_opens_the_thinking_itself_is_left_alone():
    tokenizer = character_tokenizer(("<think>", "</think>"))
    tokenizer.chat_template = CHATML.replace("assistant\n{% endif", "assistant\n<think>\n{% endif")
    assert ChatPrompter(tokenizer).render(Example("x", "q", "")).count("<think>") == 1


def test_prompter_of_a_task(tmp_path):
    character_tokenizer().save_pretrained(tmp_path)
    assert isinstance(build_prompter("gsm8k", tmp_path), ChatPrompter)
    SymbolTokenizer(("<pad>", "<end>", "<think>", "</think>", "~", "1")).save(tmp_path / "symbols")
    assert isinstance(build_prompter({"kind": "arithmetic"}, tmp_path / "symbols"), SymbolTokenizer)
    with pytest.raises(UserError, match="tokenizer"):
        build_prompter("gsm8k", tmp_path / "nowhere")


# --- one evaluation, with a sampler that stands in for a model


def test_evaluate_counts_truncated_as_wrong_and_asks_failed_verifiers_again(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "".join(json.dumps({"prompt": f"What is {n}?", "answer": str(n)}) + "\n" for n in range(3))
    )
    found = build_evaluation_set(f"math:{path}")
    prompter = ChatPrompter(character_tokenizer())

    def sampler(prompts, samples):
        right = prompter.tokens("\\boxed{1}<eos>")
        return [
            [Sampled(right, True), Sampled(right, False), Sampled(prompter.tokens("x<eos>"), True)]
            for _ in prompts
        ]

    result = evaluate(found, prompter, sampler, 3)
    assert result.counts.passed.tolist() == [0, 1, 0]
    assert result.counts.sampled.tolist() == [3, 3, 3]
    assert result.truncated == 3
    assert result.summary.pass_rate == pytest.approx(1 / 9)
    assert [p.k for p in result.summary.pass_at_k] == [1, 2, 3]
    assert len(evaluate(found, prompter, sampler, 3, most_prompts=2).counts.passed) == 2

    calls, verifier = types.SimpleNamespace(count=0), found.verifier

    def flaky(examples, texts):
        calls.count += 1
        real = verifier(examples, texts)
        return [None, *real[1:]] if calls.count == 1 else real

    object.__setattr__(found, "verifier", flaky)
    again = evaluate(found, prompter, sampler, 3)
    assert again.counts.sampled.tolist() == [3, 3, 3]
    assert again.verifier_failed == 0
