"""Compute used so far, by formulas that don't depend on the machine's mood (design.md, section 3)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from scalerl.record.schema import Compute


@dataclass(slots=True)
class Accountant:
    """Counts tokens; `parameters` is N, the model's parameters without embeddings.

    flops = 6 N (prompt and completion tokens forwarded by the trainer) + 2 N (prefilled, sampled and injected
    tokens). A completion's tokens count when it is finished, a group's prompt when it is admitted.
    """

    parameters: int
    tokens_generated: int = 0
    tokens_prefilled: int = 0
    tokens_trained: int = 0
    tokens_forwarded: int = 0

    def generated(self, tokens: int) -> None:
        """Count a finished completion's sampled and injected tokens."""
        self.tokens_generated += tokens

    def prefilled(self, tokens: int) -> None:
        """Count a prompt that an engine computed once for its group."""
        self.tokens_prefilled += tokens

    def trained(self, forwarded: int, sampled: int) -> None:
        """Count a trainer step: tokens forwarded (prompts once a group), sampled tokens that carried loss."""
        self.tokens_forwarded += forwarded
        self.tokens_trained += sampled

    @property
    def flops(self) -> float:
        """Floating-point operations so far."""
        generated = self.tokens_prefilled + self.tokens_generated
        return float(6 * self.parameters * self.tokens_forwarded + 2 * self.parameters * generated)

    def compute(self, device_hours: float | None = None) -> Compute:
        """Return the record's compute stamp."""
        return Compute(
            device_hours=device_hours,
            tokens_generated=self.tokens_generated,
            tokens_trained=self.tokens_trained,
            flops=self.flops,
        )

    def state_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        for name, value in state.items():
            setattr(self, name, value)
