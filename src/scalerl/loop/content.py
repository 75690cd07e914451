"""What the simulated clock asks of the work that it times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scalerl.loop.device import Member


class Content(Protocol):
    """What is decoded, judged and trained while the clock says when. Tokens are the content's own."""

    def admit(self, group: int) -> tuple[int, int]:
        """Make the group with this admission number: its prompt's tokens, its number of completions."""
        ...

    def start(self, device: int, members: Sequence[Member]) -> None:
        """These members take slots on a device."""
        ...

    def run(self, device: int) -> int:
        """The device decodes: boundaries that it may pass before the clock must ask what finished."""
        ...

    def cut(self, device: int, boundaries: int) -> None:
        """The device will stop after this many boundaries, fewer than `run` said."""
        ...

    def stop(self, device: int, boundaries: int) -> list[Member]:
        """The device has passed this many boundaries since `run`: who finished at the last of them."""
        ...

    def take_weights(self, version: int) -> None:
        """New weights have arrived everywhere: tokens from boundaries not yet begun are sampled with them."""
        ...

    def judge(self, group: int) -> bool:
        """A group's completions are all judged: whether it counts towards a batch."""
        ...

    def training_tokens(self, batch: Sequence[int]) -> int:
        """Prompt and completion tokens that the trainer forwards for these groups."""
        ...

    def train(self, batch: Sequence[int]) -> None:
        """The trainer's step on these groups ends now."""
        ...
