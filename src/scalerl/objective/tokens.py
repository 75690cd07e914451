"""A batch as flat sampled tokens, and the one sum that every layout, order and cut of it agrees on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class TokenLoss(Protocol):
    """The signature that all losses share (`scalerl.objective.losses`), ours and the user's."""

    def __call__(
        self, logp: Tensor, behaviour_logp: Tensor, advantage: Tensor, completion: Tensor, lengths: Tensor
    ) -> Tensor:
        """Return the loss of each token [T]."""
        ...


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """T sampled tokens of n whole completions, in any order; injected tokens and padding aren't in it.

    `logp` [T] the trainer's, `behaviour_logp` [T] the generator's, `completion` [T] in 0..n-1, `lengths` [n].
    """

    logp: Tensor
    behaviour_logp: Tensor
    completion: Tensor
    lengths: Tensor

    @classmethod
    def from_padded(cls, logp: Tensor, behaviour_logp: Tensor, sampled: Tensor) -> TokenBatch:
        """Return the batch of padded rows [n, L], `sampled` [n, L] being True at sampled tokens only."""
        completion = sampled.nonzero(as_tuple=True)[0]
        return cls(logp[sampled], behaviour_logp[sampled], completion, sampled.sum(dim=1))

    @classmethod
    def from_packed(
        cls, logp: Tensor, behaviour_logp: Tensor, completion: Tensor, sampled: Tensor, n: int
    ) -> TokenBatch:
        """Return the batch of tokens [L] laid end to end, injected ones among them (`sampled` [L] False)."""
        completion = completion[sampled]
        return cls(logp[sampled], behaviour_logp[sampled], completion, completion.bincount(minlength=n))


def weighted_loss_sum(
    batch: TokenBatch, advantage: Tensor, weight: Tensor, loss: TokenLoss, extra: Tensor | None = None
) -> Tensor:
    """Return sum_i weight_i sum_t (loss_{i,t} + extra_{i,t}), for advantages and weights [n] of the
    completions.

    With weights from `token_weights` over the whole batch, the sums of its micro-batches add up to its
    loss. `extra` [T] is a further loss a token (a KL term).
    """
    advantage, weight = (x.to(batch.logp)[batch.completion] for x in (advantage, weight))
    token_loss = loss(batch.logp, batch.behaviour_logp, advantage, batch.completion, batch.lengths)
    if token_loss.shape != batch.logp.shape:
        raise ValueError(
            f"the loss gave shape {tuple(token_loss.shape)}, one value a token [{len(batch.logp)}] expected"
        )
    if extra is not None:
        token_loss = token_loss + extra
    return (token_loss * weight).sum()
