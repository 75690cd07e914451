"""How the next token is drawn from logits: by inverse CDF from given uniforms, with its log-probability."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from scalerl.errors import UserError


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. Training needs temperature 1 and full support, else the ratio is wrong."""

    temperature: float = 1.0
    """Logits are divided by it before sampling; 0 takes the likeliest token."""
    top_p: float = 1.0
    """Smallest set of likeliest tokens whose probability reaches this; 1 is full support."""

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise UserError(f"temperature {self.temperature} is negative; give 0 (greedy) or more")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p {self.top_p} is outside (0, 1]")

    @property
    def exact(self) -> bool:
        """Whether the recorded log-probability is that of the distribution sampled from."""
        return self.temperature == 1.0 and self.top_p == 1.0


def require_exact(sampling: Sampling) -> None:
    """Refuse, for training, any sampling whose log-probabilities would make the off-policy ratio wrong."""
    if not sampling.exact:
        raise UserError(
            f"temperature {sampling.temperature} and top_p {sampling.top_p} can't be used in training: "
            "the off-policy ratio needs temperature 1 and full support; use them in evaluation only"
        )


def draw(logits: Tensor, uniforms: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Tokens [N], and their log-probabilities [N] at temperature 1 and full support, from logits [N, V].

    uniforms: float64 [N] in [0, 1 - 2^-52].
    """
    logprobs = torch.log_softmax(logits, dim=-1)
    if sampling.temperature == 0:
        tokens = logits.argmax(dim=-1)
    else:
        tokens = by_inverse_cdf(_reshaped(logits, logprobs, sampling), uniforms)
    return tokens, logprobs.gather(1, tokens.unsqueeze(1)).squeeze(1)


def by_inverse_cdf(probabilities: Tensor, uniforms: Tensor) -> Tensor:
    """The first token whose cumulative probability exceeds u times the total: [N, V], [N] -> [N].

    The sum is in float64, and u < 1 keeps u * total below total, so a token of probability 0 is never drawn.
    """
    cumulative = probabilities.cumsum(dim=-1, dtype=torch.float64)
    targets = uniforms.unsqueeze(1) * cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, targets, right=True).squeeze(1)
    return tokens.clamp_(
        max=probabilities.shape[-1] - 1
    )  # only probabilities that aren't finite need the clamp


def _reshaped(logits: Tensor, logprobs: Tensor, sampling: Sampling) -> Tensor:
    """Probabilities [N, V] after temperature and top-p."""
    if sampling.exact:
        return logprobs.exp()
    probabilities = torch.softmax(logits / sampling.temperature, dim=-1)
    if sampling.top_p == 1:
        return probabilities
    ordered, order = probabilities.sort(dim=-1, descending=True)
    outside = ordered.cumsum(dim=-1) - ordered >= sampling.top_p
    return probabilities.scatter(1, order, ordered.masked_fill(outside, 0.0))
