"""Held-out evaluation: an engine and a random stream of its own, pinned to one policy version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from scalerl.errors import NoGoodAnswer
from scalerl.generate.protocol import Completion, GroupRequest
from scalerl.generate.torch_engine import TorchEngine, generate_all
from scalerl.loop.rollouts import draw_budgets, score
from scalerl.loop.scored import ScoredGroup
from scalerl.recipe.recipe import LengthBudgets
from scalerl.record.prompts import PerPrompt
from scalerl.record.schema import HELD_OUT, Compute, Evaluation
from scalerl.task.protocol import Example, Prompter, Verifier


class VerifierDown(NoGoodAnswer):
    """No completion of an evaluation could be judged."""


RETRIES = 1
"""A failed verifier is tried once more, then its completion reduces `samples` (design.md, section 3)."""


@dataclass
class HeldOut:
    """Asks every held-out prompt `samples_per_prompt` times, apart from the training's randomness.

    The prompts of a mixture are asked in one pass and counted several times: all together, as the set `set`,
    and each domain as a set named after it.
    """

    engine: TorchEngine
    examples: Sequence[Example]
    prompter: Prompter
    verifier: Verifier
    lengths: LengthBudgets
    samples_per_prompt: int
    seed: int
    set: str = HELD_OUT

    def evaluate(
        self, weights: Mapping[str, torch.Tensor], version: int, step: int, repeat: int, compute: Compute
    ) -> list[tuple[Evaluation, PerPrompt]]:
        """Return one policy version's evaluations with per-prompt counts: the whole first, then domains."""
        self.engine.load_weights(weights, version)
        groups = self._scored(self._requests(step, repeat))
        found = []
        for domain, members in [(None, groups), *self._by_domain(groups)]:
            name = domain or self.set
            counts = per_prompt(members)
            completions = [completion for group in members for completion in group.completions]
            evaluation = Evaluation(
                step=step,
                policy_version=version,
                set=name,
                pass_rate=mean_pass_rate(counts, name),
                prompts=len(members),
                samples=int(counts.sampled.sum()),
                stderr=counts.stderr(),
                truncated=sum(c.finish == "truncated" for c in completions),
                mean_length=sum(int(c.sampled.sum()) for c in completions) / len(completions),
                compute=compute,
                domain=domain,
                repeat=repeat,
            )
            found.append((evaluation, counts))
        return found

    def _by_domain(self, groups: Sequence[ScoredGroup]) -> list[tuple[str, list[ScoredGroup]]]:
        """Each domain's groups, in order of appearance; nothing where there is one domain only."""
        domain_of = {example.id: example.domain for example in self.examples}
        found: dict[str, list[ScoredGroup]] = {}
        for group in groups:
            found.setdefault(domain_of[group.prompt_id], []).append(group)
        return list(found.items()) if len(found) > 1 else []

    def _requests(self, step: int, repeat: int) -> list[GroupRequest]:
        """Number the groups by (step, repeat, prompt): every evaluation draws afresh."""
        first = (step * 64 + repeat) * len(self.examples)
        stream = f"evaluation of {self.set}"
        return [
            GroupRequest(
                first + i,
                example.id,
                self.prompter.encode(example),
                draw_budgets(self.lengths, self.seed, stream, first + i, self.samples_per_prompt),
            )
            for i, example in enumerate(self.examples)
        ]

    def _scored(self, requests: Sequence[GroupRequest]) -> list[ScoredGroup]:
        by_group: dict[int, list[Completion]] = {request.group: [] for request in requests}
        for completion in generate_all(self.engine, requests):
            by_group[completion.group].append(completion)
        by_id = {example.id: example for example in self.examples}
        groups = score(list(by_group.values()), by_id, self.prompter, self.verifier)
        for _ in range(RETRIES):
            failed = {i for i, group in enumerate(groups) if None in group.passed}
            if not failed:
                break
            again = score(
                [groups[i].completions for i in sorted(failed)], by_id, self.prompter, self.verifier
            )
            for i, group in zip(sorted(failed), again, strict=True):
                groups[i] = group
        return groups


def mean_pass_rate(counts: PerPrompt, name: str = HELD_OUT) -> float:
    """Return the mean over prompts of their pass rates (mean@k), unjudged prompts left out."""
    judged = counts.sampled > 0
    if not judged.any():
        raise VerifierDown(f"the verifier failed on every completion of the set {name!r}; see its messages")
    return float((counts.passed[judged] / counts.sampled[judged]).mean())


def per_prompt(groups: Sequence[ScoredGroup]) -> PerPrompt:
    """Count passed and sampled of each prompt: truncated is wrong, a verifier's failure doesn't count."""
    passed = [
        sum(bool(word) and c.finish != "truncated" for word, c in zip(g.passed, g.completions, strict=True))
        for g in groups
    ]
    sampled = [
        sum(
            word is not None or c.finish == "truncated"
            for word, c in zip(g.passed, g.completions, strict=True)
        )
        for g in groups
    ]
    return PerPrompt.of([group.prompt_id for group in groups], passed, sampled)
