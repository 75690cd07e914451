"""The quickstart setting: a small task and model on which every recipe learns within minutes on a CPU."""

from __future__ import annotations

from collections.abc import Sequence

from scalerl.loop.config import CheckpointPlan, EngineSettings, EvaluationPlan, RunConfig
from scalerl.recipe import axes
from scalerl.recipe.load import load_recipe
from scalerl.recipe.recipe import Recipe
from scalerl.study.plan import StudyPlan

STEPS = 540
PROMPTS_PER_STEP = 32
TRAIN_PROMPTS = 13_824
"""A run goes through them 1.25 times. In a third epoch No-Positive-Resampling has only prompts left that are
hardly ever solved, and the policy forgets the rest (docs/quickstart.md)."""
RECIPES = ("scalerl", "deepseek_grpo")
LEARNING_RATE = 6e-4
"""From pilot runs: 4e-4 learns slower, at 1e-3 GRPO collapses."""
INTERRUPTION_PHRASE = "~</think>"
"""The task's own "time is up": its vocabulary has no words."""


def at_quickstart_sizes(recipe: Recipe) -> Recipe:
    """Return the recipe at the small task's lengths and learning rate; its axes stay as they are."""
    small = recipe.scaled_to(max_prompt_tokens=40, max_thinking_tokens=19, max_answer_tokens=4)
    optimizer = {**dict(recipe.optimizer), "learning_rate": LEARNING_RATE, "warmup_steps": 5}
    small = small.replace(optimizer=optimizer)
    if isinstance(small.length_control, axes.Interruption):
        control = {**dict(small.length_control), "phrase": INTERRUPTION_PHRASE}
        small = small.replace(length_control=control)
    return small


def quickstart_recipe(name_or_path: str) -> Recipe:
    """Return a recipe at quickstart sizes, in batches of the quickstart's size."""
    return at_quickstart_sizes(load_recipe(name_or_path)).scaled_to(prompts_per_step=PROMPTS_PER_STEP)


def quickstart_config(recipe: Recipe, *, name: str, seed: int, steps: int = STEPS) -> RunConfig:
    """Return a run of the quickstart task: about three minutes of one CPU core."""
    return RunConfig(
        name=name,
        recipe=recipe,
        task={"kind": "arithmetic", "train_prompts": TRAIN_PROMPTS, "held_out_prompts": 320},
        model="quickstart",
        seed=seed,
        steps=steps,
        evaluation=EvaluationPlan(
            every_steps=8,
            early_every_steps=2,
            early_until_step=3 * steps // 8,
            samples_per_prompt=1,
            repeats_at_start=3,
        ),
        checkpoint=CheckpointPlan(every_steps=30, keep_last=2, keep_every=180),
        engine=EngineSettings(slots=512, micro_batch_tokens=3072),
    )


def quickstart_study(
    recipes: Sequence[str] = RECIPES, seeds: Sequence[int] = (1,), steps: int = STEPS
) -> StudyPlan:
    """Return the study that `make study` runs: one run for each recipe and seed."""
    runs = [
        quickstart_config(quickstart_recipe(name), name=f"{name}-seed{seed}", seed=seed, steps=steps)
        for seed in seeds
        for name in recipes
    ]
    return StudyPlan(name="quickstart", runs=tuple(runs))
