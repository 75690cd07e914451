"""How `scalerl eval` samples: the embedded engine behind task.evaluate's Sampler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scalerl.policy.load import Policy
    from scalerl.task.evaluate import Sampled, Sampler
    from scalerl.task.protocol import Prompter


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """What the command line says about sampling."""

    samples: int
    prompts: int | None
    max_thinking_tokens: int
    max_answer_tokens: int
    phrase: str | None
    temperature: float
    top_p: float
    seed: int
    slots: int
    device: str
    dtype: str


def load_model(folder: Path, plan: SamplingPlan) -> Policy:
    """Load a checkpoint as the plan says."""
    from scalerl.policy.load import load_policy

    return load_policy(folder, plan.device, plan.dtype)


def engine_sampler(policy: Policy, prompter: Prompter, plan: SamplingPlan) -> Sampler:
    """A sampler over a fresh engine a call: what one set draws doesn't depend on the sets before it."""
    from scalerl.generate.protocol import Budget, GroupRequest
    from scalerl.generate.sampling import Sampling
    from scalerl.generate.torch_engine import TorchEngine, generate_all
    from scalerl.task.evaluate import Sampled

    def sample(prompts: Sequence[tuple[int, ...]], samples: int) -> list[list[Sampled]]:
        engine = TorchEngine(
            policy,
            slots=min(plan.slots, samples * len(prompts)),
            seed=plan.seed,
            end_token=prompter.end_token,
            close_thinking=prompter.close_thinking,
            interruption_phrase=None if plan.phrase is None else prompter.tokens(plan.phrase),
            sampling=Sampling(plan.temperature, plan.top_p),
            evaluation=True,
        )
        budgets = (Budget(plan.max_thinking_tokens, plan.max_answer_tokens),) * samples
        requests = [GroupRequest(i, str(i), prompt, budgets) for i, prompt in enumerate(prompts)]
        found: list[list[Sampled]] = [[] for _ in prompts]
        for completion in generate_all(engine, requests):
            tokens = tuple(int(token) for token in completion.tokens)
            found[completion.group].append(Sampled(tokens, completion.finish == "stop"))
        return found

    return sample
