"""From a recipe's data to the pure functions of `scalerl.objective`: the one place where the two meet.

A trainer step, in three calls:

    prepared = objective.prepare(groups)                           # once, on the whole batch
    loss = objective.token_loss_sum(prepared, part, logp)          # for each micro-batch: the losses add up
    step = objective.step_metrics(prepared, parts, logp, entropy)  # once: what goes into steps.jsonl
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from scalerl.generate.protocol import Completion
from scalerl.loop.objective_parts import (
    AdvantageFunction,
    BoundFunction,
    RewardFunction,
    advantage_function,
    bound_function,
    loss_function,
    reward_function,
)
from scalerl.loop.scored import ScoredGroup, batch_metrics
from scalerl.objective.aggregation import token_weights
from scalerl.objective.diagnostics import ratio_diagnostics
from scalerl.objective.kl import kl_estimate
from scalerl.objective.length_penalty import length_penalty
from scalerl.objective.survivors import MIN_SURVIVORS, is_zero_variance
from scalerl.objective.tokens import TokenBatch, TokenLoss, weighted_loss_sum
from scalerl.recipe.axes import CustomLoss, ReferenceKl
from scalerl.recipe.recipe import Recipe


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """The N completions that are trained on, in order of (group, sample), and what the whole batch decides.

    `advantage` [N] and `weight` [N] are float64; `lengths` [N] counts sampled tokens; `prompt` [N] is 0..P-1;
    `behaviour_logp` [T] are the generator's log-probs of the sampled tokens, completion after completion.
    `metrics` goes into steps.jsonl. N may be 0 (no prompt was kept): then there is no gradient and the step
    is skipped.
    """

    completions: tuple[Completion, ...]
    prompt: Tensor
    reward: Tensor
    advantage: Tensor
    weight: Tensor
    lengths: Tensor
    behaviour_logp: Tensor
    metrics: dict[str, float]

    @property
    def tokens_forwarded(self) -> int:
        """Tokens that a trainer forwards: each completion's, injected ones too, and each prompt's once."""
        prompts = {prompt: c.prompt for prompt, c in zip(self.prompt.tolist(), self.completions, strict=True)}
        return sum(len(tokens) for tokens in prompts.values()) + sum(len(c.tokens) for c in self.completions)

    def flat_tokens(self, completion_indices: Sequence[int]) -> TokenBatch:
        """Return some completions' sampled tokens laid out flat, in the order given; `logp` is empty."""
        index = torch.as_tensor(list(completion_indices), dtype=torch.int64)
        lengths = self.lengths[index]
        completion = torch.repeat_interleave(torch.arange(len(index)), lengths)
        # a token lies as far behind its completion's first one here as there
        shift = self.lengths.cumsum(0)[index] - lengths.cumsum(0)
        behaviour_logp = self.behaviour_logp[torch.arange(len(completion)) + shift[completion]]
        return TokenBatch(behaviour_logp[:0], behaviour_logp, completion, lengths)


@dataclass(frozen=True, slots=True)
class Objective:
    """What a recipe makes of groups of completions: its filters, advantages, loss and aggregation."""

    reward: RewardFunction
    advantage: AdvantageFunction
    aggregate: Callable[[Tensor, Tensor], Tensor]
    loss: TokenLoss
    bound: BoundFunction | None
    penalty_tokens: tuple[int, int] | None
    drops_zero_variance: bool
    refills: bool
    kl: ReferenceKl | None
    gradient_needs_advantage: bool

    @classmethod
    def from_recipe(cls, recipe: Recipe) -> Self:
        """Bind the recipe's parameters. Raises UserError when a file of the user's can't be loaded."""
        max_tokens = recipe.max_completion_tokens
        return cls(
            reward=reward_function(recipe.reward),
            advantage=advantage_function(recipe.advantage),
            aggregate=lambda lengths, prompt: token_weights(
                recipe.aggregation, lengths, prompt, max_tokens=max_tokens
            ),
            loss=loss_function(recipe.loss),
            bound=bound_function(recipe.loss),
            penalty_tokens=recipe.penalty_tokens,
            drops_zero_variance=recipe.batch != "all",
            refills=recipe.batch == "dynamic_sampling",
            kl=recipe.kl if isinstance(recipe.kl, ReferenceKl) else None,
            gradient_needs_advantage=not isinstance(recipe.loss, CustomLoss)
            and not isinstance(recipe.kl, ReferenceKl),
        )

    @property
    def needs_reference(self) -> bool:
        """Whether the loss has a KL term, so that the reference model's log-probs are wanted."""
        return self.kl is not None

    def learns(self, prepared: PreparedBatch) -> Tensor:
        """Return which completions [N] may have a gradient.

        Where the advantage is 0, as in a prompt whose rewards are all equal, each of our losses is 0 whatever
        the policy is. A KL term isn't, nor need a loss of the user's be.
        """
        if not self.gradient_needs_advantage:
            return torch.ones_like(prepared.advantage, dtype=torch.bool)
        return prepared.advantage != 0

    def keeps(self, group: ScoredGroup) -> bool:
        """Return whether a group's prompt is trained on."""
        outcomes = group.outcomes()
        return len(outcomes) >= MIN_SURVIVORS and not (
            self.drops_zero_variance and is_zero_variance(outcomes)
        )

    def counts_towards_batch(self, group: ScoredGroup) -> bool:
        """Return whether a finished group is one of the step's `prompts_per_step`.

        Every group is, kept or not, except under dynamic sampling: there the loop takes further groups
        until enough are kept, and hands all of them to `prepare`.
        """
        return not self.refills or self.keeps(group)

    def prepare(self, groups: Sequence[ScoredGroup]) -> PreparedBatch:
        """Filter the step's groups; advantages and weights of the whole batch. Once a trainer step."""
        groups = sorted(groups, key=lambda group: group.group)
        judged = [group for group in groups if len(group.surviving) >= MIN_SURVIVORS]
        rewards = [self._rewards(group) for group in judged]
        reward = torch.from_numpy(np.concatenate([*rewards, np.zeros(0)]))
        sizes = torch.tensor([len(r) for r in rewards], dtype=torch.int64)
        prompt = torch.repeat_interleave(torch.arange(len(judged)), sizes)
        keeps = torch.tensor([self.keeps(group) for group in judged], dtype=torch.bool)
        kept = keeps[prompt]
        advantage = self.advantage(reward, prompt, kept)
        kept_groups = [group for group, keep in zip(judged, keeps.tolist(), strict=True) if keep]
        completions = tuple(group.completions[i] for group in kept_groups for i in group.surviving)
        kept_prompt = (keeps.cumsum(0) - 1)[prompt][kept]
        logps = [c.logprobs[c.sampled] for c in completions]
        lengths = torch.tensor([len(logp) for logp in logps], dtype=torch.int64)
        return PreparedBatch(
            completions=completions,
            prompt=kept_prompt,
            reward=reward[kept],
            advantage=advantage[kept],
            weight=self.aggregate(lengths, kept_prompt),
            lengths=lengths,
            behaviour_logp=torch.from_numpy(np.concatenate([*logps, np.zeros(0, np.float32)])),
            metrics=batch_metrics(groups, kept_groups, reward),
        )

    def token_loss_sum(
        self,
        prepared: PreparedBatch,
        completion_indices: Sequence[int],
        logp: Tensor,
        reference_logp: Tensor | None = None,
    ) -> Tensor:
        """Return these completions' part of the batch's loss, a scalar; the parts add up to it.

        `logp` [T] holds the trainer's log-probs of the *sampled* tokens of `prepared.completions[i]`, for i
        in the order given, each completion whole. `reference_logp` [T], likewise, where `needs_reference`.
        """
        batch, advantage = self._tokens(prepared, completion_indices, logp)
        weight = prepared.weight[list(completion_indices)].to(logp)
        extra = None
        if self.kl is not None:
            if reference_logp is None:
                raise ValueError("the recipe has a KL term: reference_logp is wanted")
            extra = self.kl.coefficient * kl_estimate(batch.logp, reference_logp.to(logp), self.kl.estimator)
        return weighted_loss_sum(batch, advantage, weight, self.loss, extra)

    @torch.no_grad()
    def step_metrics(
        self, prepared: PreparedBatch, completion_indices: Sequence[int], logp: Tensor, entropy: Tensor
    ) -> dict[str, float]:
        """Return the step's numbers: the batch's, ratios untruncated, shares at a bound, entropy in nats.

        `logp` and `entropy` [T] as in `token_loss_sum`, of all completions, in the order of
        `completion_indices`.
        """
        batch, advantage = self._tokens(prepared, completion_indices, logp)
        step = {**prepared.metrics, **ratio_diagnostics(batch.logp, batch.behaviour_logp)}
        if batch.logp.numel() == 0:
            return step
        step["entropy"] = float(entropy.double().mean())
        if self.bound is not None:
            low, high = self.bound(
                batch.logp, batch.behaviour_logp, advantage[batch.completion], batch.completion, batch.lengths
            )
            step["clip_low_share"] = float(low.double().mean())
            step["clip_high_share"] = float(high.double().mean())
        return step

    def _rewards(self, group: ScoredGroup) -> npt.NDArray[np.float64]:
        """Return the survivors' rewards [g], length penalty included."""
        index = group.surviving
        rewards = self.reward(
            group.outcomes(), [group.completions[i] for i in index], [group.reward[i] for i in index]
        )
        if self.penalty_tokens is None:
            return rewards
        max_tokens, cache_tokens = self.penalty_tokens
        lengths = np.array([int(group.completions[i].sampled.sum()) for i in index])
        penalty = length_penalty(
            lengths, np.array(group.outcomes()), max_tokens=max_tokens, cache_tokens=cache_tokens
        )
        return rewards + penalty

    @staticmethod
    def _tokens(
        prepared: PreparedBatch, completion_indices: Sequence[int], logp: Tensor
    ) -> tuple[TokenBatch, Tensor]:
        flat = prepared.flat_tokens(completion_indices)
        if logp.shape != flat.behaviour_logp.shape:
            raise ValueError(
                f"logp has shape {tuple(logp.shape)}, "
                f"these completions have {len(flat.behaviour_logp)} sampled tokens"
            )
        device = logp.device
        batch = TokenBatch(
            logp, flat.behaviour_logp.to(logp), flat.completion.to(device), flat.lengths.to(device)
        )
        return batch, prepared.advantage[list(completion_indices)].to(logp)
