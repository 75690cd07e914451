"""One trainer step: groups in, new weights and the step's numbers out."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scalerl.loop.objective import Objective, PreparedBatch
from scalerl.loop.scored import ScoredGroup
from scalerl.policy.forward import completion_logprobs
from scalerl.policy.load import Policy
from scalerl.recipe.recipe import Recipe
from scalerl.recipe.sizes import Optimizer


@dataclass(frozen=True, slots=True)
class StepReport:
    """What a trainer step did: its metrics, and the tokens that went through the model and carried loss."""

    metrics: dict[str, Any]
    tokens_forwarded: int
    tokens_trained: int


class Trainer:
    """Holds the policy, its optimizer and the objective; `step` is all it does."""

    def __init__(self, policy: Policy, recipe: Recipe, micro_batch_tokens: int) -> None:
        self.policy = policy
        self.objective = Objective.from_recipe(recipe)
        self._fp32_head = recipe.head == "fp32"
        self._micro_batch_tokens = micro_batch_tokens
        self._settings = recipe.optimizer
        self._parameters = policy.parameters()
        self._optimizer = torch.optim.AdamW(
            list(self._parameters.values()),
            lr=recipe.optimizer.learning_rate,
            betas=recipe.optimizer.betas,
            eps=recipe.optimizer.eps,
            weight_decay=recipe.optimizer.weight_decay,
        )
        self._updates = 0
        self._reference = _frozen_copy(policy) if self.objective.needs_reference else None

    def step(self, groups: Sequence[ScoredGroup]) -> StepReport:
        """Take one optimizer step; skipped, and counted, when nothing was kept or a gradient isn't finite."""
        prepared = self.objective.prepare(groups)
        self._optimizer.zero_grad(set_to_none=True)
        if not prepared.completions:
            return StepReport({**prepared.metrics, "skipped": 1}, 0, 0)
        loss = 0.0
        order: list[int] = []
        scores: list[tuple[Tensor, Tensor]] = []
        learns = self.objective.learns(prepared)
        for part in micro_batches(prepared, learns, self._micro_batch_tokens):
            logp, entropy = self._scores(self.policy, prepared, part)
            reference = self._reference_logp(prepared, part)
            partial = self.objective.token_loss_sum(prepared, part, logp, reference)
            partial.backward()
            loss += float(partial.detach())
            order += part
            scores.append((logp.detach(), entropy.detach()))
        for part in micro_batches(prepared, ~learns, self._micro_batch_tokens):
            order += part
            scores.append(self._watched(prepared, part))
        logps, entropies = (torch.cat(all_of_them) for all_of_them in zip(*scores, strict=True))
        metrics = self.objective.step_metrics(prepared, order, logps, entropies)
        metrics |= {"loss": loss, **self._update(loss)}
        return StepReport(metrics, prepared.tokens_forwarded, int(prepared.lengths.sum()))

    def _scores(self, policy: Policy, prepared: PreparedBatch, part: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return log-probs and entropies [T] of a micro-batch's sampled tokens."""
        prompt = prepared.prompt.tolist()
        by_prompt = [list(run) for _, run in groupby(part, key=lambda i: prompt[i])]
        completions = prepared.completions
        groups = [(completions[run[0]].prompt, [completions[i].tokens for i in run]) for run in by_prompt]
        logp, entropy = completion_logprobs(policy, groups, fp32_head=self._fp32_head)
        sampled = torch.from_numpy(np.concatenate([completions[i].sampled for i in part])).to(logp.device)
        return logp[sampled], entropy[sampled]

    @torch.no_grad()
    def _watched(self, prepared: PreparedBatch, part: Sequence[int]) -> tuple[Tensor, Tensor]:
        """As `_scores`, for completions without a gradient: the step's numbers are of them, too."""
        return self._scores(self.policy, prepared, part)

    @torch.no_grad()
    def _reference_logp(self, prepared: PreparedBatch, part: Sequence[int]) -> Tensor | None:
        return None if self._reference is None else self._scores(self._reference, prepared, part)[0]

    def _update(self, loss: float) -> dict[str, float]:
        """Clip, check and apply the accumulated gradient."""
        parameters = list(self._parameters.values())
        if all(parameter.grad is None for parameter in parameters):  # no completion learns
            for parameter in parameters:
                parameter.grad = torch.zeros_like(parameter)  # the moments decay as under any zero gradient
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, self._settings.max_grad_norm))
        learning_rate = warmed_up(self._settings, self._updates)
        if not (math.isfinite(norm) and math.isfinite(loss)):
            return {"grad_norm": norm, "learning_rate": learning_rate, "skipped": 1}
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._optimizer.step()
        self._updates += 1
        return {"grad_norm": norm, "learning_rate": learning_rate, "skipped": 0}

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's moments by parameter name; the weights are saved as a model folder beside."""
        moments = {name: self._optimizer.state.get(p, {}) for name, p in self._parameters.items()}
        return {"updates": self._updates, "moments": {name: dict(state) for name, state in moments.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave; the policy's weights must be those of the same checkpoint."""
        self._updates = state["updates"]
        for name, moments in state["moments"].items():
            parameter = self._parameters[name]
            if moments:
                placed = {key: t.to(parameter.device if t.ndim else "cpu") for key, t in moments.items()}
                self._optimizer.state[parameter] = placed


def micro_batches(prepared: PreparedBatch, among: Tensor, tokens: int) -> list[list[int]]:
    """Cut the completions that `among` [N] marks into even runs of about `tokens` tokens, by whole prompts.

    A run is over `tokens` by half a prompt's completions at most, or where one prompt has more.
    """
    prompt = prepared.prompt.tolist()
    marked = among.nonzero().flatten().tolist()
    prompts = [list(run) for _, run in groupby(marked, key=lambda i: prompt[i])]
    prompts.sort(
        key=lambda run: len(prepared.completions[run[0]].prompt)
    )  # alike lengths together: less padding
    sizes = [sum(len(prepared.completions[i].tokens) for i in run) for run in prompts]
    total = max(1, sum(sizes))
    count = math.ceil(total / tokens)
    parts: list[list[int]] = [[] for _ in range(count)]
    before = 0.0
    for run, size in zip(prompts, sizes, strict=True):
        middle = (before + size / 2) / total
        parts[min(count - 1, int(middle * count))] += run
        before += size
    return [part for part in parts if part]


def warmed_up(settings: Optimizer, updates: int) -> float:
    """Return the learning rate after `updates` optimizer steps: linear warm-up, then constant."""
    return settings.learning_rate * min(1.0, (updates + 1) / max(1, settings.warmup_steps))


def _frozen_copy(policy: Policy) -> Policy:
    model = copy.deepcopy(policy.model).requires_grad_(False)
    return Policy(model, policy.path)
