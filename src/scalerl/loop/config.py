"""One run as data: recipe, task, model and how it is executed. Everything here goes into run.json."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from scalerl.loop.profile import Profile
from scalerl.recipe.recipe import Recipe

Count = Annotated[int, Field(ge=1)]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class EvaluationPlan(_Settings):
    """When and how the held-out prompts are asked."""

    every_steps: Count = 100
    """Trainer steps between evaluations."""
    early_every_steps: Count | None = None
    """Trainer steps between evaluations up to `early_until_step`: a curve's steep part tells the most."""
    early_until_step: Annotated[int, Field(ge=0)] = 0
    """The last step of the early part; 0: there is none."""
    samples_per_prompt: Count = 16
    """Completions of each held-out prompt."""
    repeats_at_start: Count = 1
    """Evaluations of the untrained policy: R0 is their mean."""

    def due(self, step: int) -> bool:
        """Whether the policy is evaluated after this trainer step, the last one apart."""
        early = self.early_every_steps if step <= self.early_until_step else None
        return step % (early or self.every_steps) == 0


class CheckpointPlan(_Settings):
    """When the whole state is written, and what is kept."""

    every_steps: Count = 100
    """Trainer steps between checkpoints."""
    keep_last: Count = 3
    """Newest checkpoints that are kept."""
    keep_every: Count | None = None
    """Checkpoints of steps divisible by this are kept for good."""


class EngineSettings(_Settings):
    """The embedded engine and the trainer's cut into micro-batches."""

    slots: Count = 256
    """Completions decoded together."""
    micro_batch_tokens: Count = 8192
    """Completion tokens in one forward and backward pass of the trainer."""
    processes: Literal[1, 2] = 1
    """2: a generator process beside the trainer's, by the wall clock; two such runs aren't equal."""
    generator_device: str | None = None
    """The generator's device, with 2 processes; None: the trainer's."""
    recompute_kv_on_update: bool = False
    """Rebuild the KV cache of completions in flight under new weights; off: it stays, stale (the source)."""


class SimulatedClock(_Settings):
    """A cluster whose time the run keeps instead of this machine's."""

    profile: Profile
    """The cluster's figures, whole: a run doesn't change when a profile that ships does."""
    tokens_per_token: Count
    """Simulated tokens that one real token stands for."""


class RunConfig(_Settings):
    """Everything that determines a run; two runs with equal configs on one machine are equal bit for bit."""

    name: str
    """The run's name, used in tables and figures."""
    recipe: Recipe
    """What is trained how."""
    task: dict[str, Any]
    """The task's specification (`scalerl.task.build`)."""
    model: str = "quickstart"
    """A Hugging Face model folder, or `quickstart` for the small model that ships with scalerl."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Sampling, prompt order, evaluation: all randomness of the run."""
    steps: Count
    """Trainer steps."""
    evaluation: EvaluationPlan = EvaluationPlan()
    checkpoint: CheckpointPlan = CheckpointPlan()
    engine: EngineSettings = EngineSettings()
    clock: SimulatedClock | None = None
    """The simulated cluster; None: no clock, as fast as the machine goes."""
    device: str = "cpu"
    """`cpu`, `cuda` or `cuda:0`."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the model's weights."""
    threads: Count = 1
    """CPU threads; part of the config since sums depend on it in the last bit."""
