"""What the simulated clock asks of the work that it times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scalerl.loop.device import Member
from scalerl.loop.ledger import Ledger
from scalerl.loop.readings import ClockStep


class Content(Protocol):
    """What is decoded, judged and trained while the clock says when. Tokens are the content's own.

    The content also moves groups through its ledger; the clock only reads it, through the schedule.
    """

    @property
    def ledger(self) -> Ledger:
        """Where every untrained group stands."""
        ...

    def admit(self, version: int) -> tuple[int, int, int]:
        """Admit the next group, to start at `version`: its number, its prompt's tokens, its completions."""
        ...

    def start(self, device: int, members: Sequence[Member]) -> None:
        """These members take slots on a device."""
        ...

    def run(self, device: int) -> int:
        """The device decodes: boundaries that it may pass before the clock must ask what finished."""
        ...

    def stop(self, device: int, boundaries: int) -> list[Member]:
        """The device has passed this many boundaries since `run`, at least one: who finished at the last."""
        ...

    def publish(self, version: int) -> None:
        """The weights of this version set out to the generators."""
        ...

    def take_weights(self, version: int) -> None:
        """They have arrived everywhere: only steps begun before (by `run`) sample with the old ones."""
        ...

    def judge(self, group: int) -> None:
        """A group's completions are all judged: it's finished, or dropped from the ledger."""
        ...

    def begin_step(self, batch: Sequence[int]) -> int:
        """The trainer takes these groups; returns the prompt and completion tokens that it forwards."""
        ...

    def end_step(self, reading: ClockStep) -> None:
        """The step in progress ends, at this reading of the clock."""
        ...
