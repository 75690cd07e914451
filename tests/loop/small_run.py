"""A run small enough for tests, that learns: a random policy rewarded for writing the digit 7."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from scalerl.loop.config import CheckpointPlan, EngineSettings, EvaluationPlan, RunConfig, SimulatedClock
from scalerl.loop.profile import Profile
from scalerl.policy.load import new_policy, save_policy
from scalerl.recipe.load import load_recipe
from scalerl.recipe.recipe import Recipe
from scalerl.task.arithmetic import SYMBOLS, arithmetic_task
from scalerl.task.protocol import Example, Judgement, Task
from scalerl.task.tokenizer import SymbolTokenizer

MODEL = {
    "vocab_size": len(SYMBOLS),
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
    "initializer_range": 0.1,
}

CLUSTER = Profile(
    name="small",
    generators=3,
    trainers=1,
    slots_per_generator=10,
    flops_per_second=2e15,
    bytes_per_second=8e12,
    parameters=8e9,
    bytes_per_parameter=2,
    kv_bytes_per_token=131072,
    decode_bandwidth_share=0.6,
    prefill_flops_share=0.4,
    training_flops_share=0.4,
    transfer_bytes_per_second=50e9,
    transfer_seconds=0.5,
    verification_seconds=0.5,
)
CLOCK = SimulatedClock(profile=CLUSTER, tokens_per_token=300)


class Silent:
    """A listener that shows nothing."""

    def on_step(self, row):
        pass

    def on_evaluation(self, evaluation):
        pass

    def on_event(self, kind, message):
        pass


def write_model(folder: Path) -> Path:
    save_policy(new_policy(MODEL, seed=3), folder)
    SymbolTokenizer(SYMBOLS).save(folder)
    return folder


def recipe(**changes) -> Recipe:
    small = load_recipe("scalerl").scaled_to(
        max_prompt_tokens=20, max_thinking_tokens=10, max_answer_tokens=3
    )
    control = {**dict(small.length_control), "phrase": "~</think>"}
    sizes = {**dict(small.sizes), "prompts_per_step": 4, "generations_per_prompt": 6}
    optimizer = {**dict(small.optimizer), "learning_rate": 1e-2, "warmup_steps": 1}
    return small.replace(**{"length_control": control, "sizes": sizes, "optimizer": optimizer, **changes})


def config(model: Path, steps: int = 8, clock: SimulatedClock | None = CLOCK, **changes) -> RunConfig:
    return RunConfig(
        name="small",
        recipe=recipe(**changes),
        task={"kind": "arithmetic"},
        model=str(model),
        steps=steps,
        evaluation=EvaluationPlan(every_steps=2, samples_per_prompt=2),
        checkpoint=CheckpointPlan(every_steps=2),
        engine=EngineSettings(slots=30, micro_batch_tokens=200),
        clock=clock,
    )


def seven(examples: Sequence[Example], completions: Sequence[str]) -> list[Judgement | None]:
    return [Judgement("7" in text, 1.0 if "7" in text else -1.0) for text in completions]


def _task(_spec) -> Task:
    plain = arithmetic_task(train_prompts=40, held_out_prompts=6, max_operations=3)
    return Task("sevens", plain.train, plain.held_out, seven)


@contextmanager
def small_task():
    with patch("scalerl.loop.setup.build_task", _task):
        yield
