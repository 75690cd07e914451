"""One whole RL step (generation, reward, update), timed: ours, and TRL's GRPOTrainer on the same work."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scalerl.generate.protocol import Budget, GroupRequest
from scalerl.generate.torch_engine import TorchEngine, generate_all
from scalerl.loop.rollouts import score
from scalerl.loop.trainer import Trainer
from scalerl.policy.load import Policy
from scalerl.recipe.axes import Clip, GroupAdvantage, NoLengthControl, PpoOffPolicy
from scalerl.recipe.recipe import Recipe
from scalerl.recipe.sizes import Optimizer, Sizes
from scalerl.task.protocol import Example, Prompter, Verifier

LEARNING_RATE = 1e-6
"""So small that the completions' lengths stay as they are while steps are timed."""


@dataclass(frozen=True, slots=True)
class StepWork:
    """What a step does: G completions for each prompt, judged, one update by GRPO's clipped loss."""

    prompts_per_step: int
    generations_per_prompt: int
    max_completion_tokens: int
    examples: Sequence[Example]
    prompter: Prompter
    verifier: Verifier

    def examples_of(self, step: int) -> Sequence[Example]:
        """The step's prompts, in rotation."""
        first = step * self.prompts_per_step
        return [self.examples[(first + i) % len(self.examples)] for i in range(self.prompts_per_step)]


@dataclass(frozen=True, slots=True)
class StepTime:
    """What one step took: wall and CPU seconds, sampled tokens, and the wall seconds of its generation."""

    seconds: float
    cpu_seconds: float
    tokens: int
    generation_seconds: float


def grpo_recipe(work: StepWork) -> Recipe:
    """GRPO as TRL has it (`loss_type='grpo'`): clip 0.2, sample means, group normalisation, on-policy."""
    return Recipe(
        schedule=PpoOffPolicy(k=1),
        loss=Clip(eps_low=0.2, eps_high=0.2),
        aggregation="sample",
        advantage=GroupAdvantage(normalisation="prompt"),
        head="fp32",
        batch="all",
        curriculum="uniform",  # type: ignore[arg-type]  # a short form, expanded by the recipe's validator
        length_control=NoLengthControl(),
        sizes=Sizes(
            prompts_per_step=work.prompts_per_step,
            generations_per_prompt=work.generations_per_prompt,
            max_thinking_tokens=work.max_completion_tokens - 1,
            max_answer_tokens=1,
        ),
        optimizer=Optimizer(learning_rate=LEARNING_RATE, warmup_steps=0),
    )


def our_step(policy: Policy, work: StepWork, seed: int, micro_batch_tokens: int) -> Callable[[int], StepTime]:
    """A function that takes step number n and returns what it took; it changes the policy."""
    trainer = Trainer(policy, grpo_recipe(work), micro_batch_tokens)
    slots = work.prompts_per_step * work.generations_per_prompt
    engine = TorchEngine(policy, slots=slots, seed=seed, end_token=work.prompter.end_token)
    budgets = (Budget(0, work.max_completion_tokens),) * work.generations_per_prompt
    by_id = {example.id: example for example in work.examples}

    def step(number: int) -> StepTime:
        started, cpu_started = time.perf_counter(), time.process_time()
        requests = [
            GroupRequest(number * work.prompts_per_step + i, e.id, work.prompter.encode(e), budgets)
            for i, e in enumerate(work.examples_of(number))
        ]
        completions = generate_all(engine, requests)
        generated = time.perf_counter()
        size = work.generations_per_prompt
        groups = [completions[i : i + size] for i in range(0, len(completions), size)]
        trainer.step(score(groups, by_id, work.prompter, work.verifier))
        engine.load_weights(policy.weights(), number + 1)
        return StepTime(
            time.perf_counter() - started,
            time.process_time() - cpu_started,
            sum(len(completion.tokens) for completion in completions),
            generated - started,
        )

    return step
