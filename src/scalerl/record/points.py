"""Evaluations of a foreign log as columns: a sequence of Evaluation that is built one at a time, on demand.

A log of 1 GB can hold a million points; as objects they would take gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np
import numpy.typing as npt

from scalerl.record.schema import Compute, Evaluation

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SetPoints:
    """N points of one evaluation set: step [N], pass rate [N], compute axes [N] each (NaN where unknown)."""

    name: str
    step: Ints
    pass_rate: Floats
    axes: Mapping[str, Floats] = field(default_factory=dict)
    samples: Ints | None = None
    repeat: Ints | None = None

    def __len__(self) -> int:
        return len(self.step)

    def on(self, axis: str) -> Floats | None:
        """The points' places on an axis [N], or None where some are unknown."""
        if axis == "steps":
            return self.step.astype(np.float64)
        values = self.axes.get(axis)
        return None if values is None or bool(np.any(np.isnan(values))) else values

    def evaluation(self, index: int) -> Evaluation:
        """Point number `index` as a record line would hold it."""
        compute = {
            axis: int(values[index]) if axis == "tokens_trained" else float(values[index])
            for axis, values in self.axes.items()
            if not np.isnan(values[index])
        }
        samples = None if self.samples is None or self.samples[index] <= 0 else int(self.samples[index])
        return Evaluation(
            step=int(self.step[index]),
            set=self.name,
            pass_rate=float(self.pass_rate[index]),
            samples=samples,
            repeat=0 if self.repeat is None else int(self.repeat[index]),
            compute=Compute.model_validate(compute),
        )


class PointTable(Sequence[Evaluation]):
    """The evaluations of one foreign run, set after set."""

    def __init__(self, sets: Sequence[SetPoints]) -> None:
        self.by_set: dict[str, SetPoints] = {points.name: points for points in sets}

    def __len__(self) -> int:
        return sum(len(points) for points in self.by_set.values())

    @overload
    def __getitem__(self, index: int) -> Evaluation: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Evaluation]: ...

    def __getitem__(self, index: int | slice) -> Evaluation | Sequence[Evaluation]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        place = index + len(self) if index < 0 else index
        for points in self.by_set.values():
            if 0 <= place < len(points):
                return points.evaluation(place)
            place -= len(points)
        raise IndexError(f"evaluation {index} of {len(self)}")

    def __iter__(self) -> Iterator[Evaluation]:
        for points in self.by_set.values():
            for index in range(len(points)):
                yield points.evaluation(index)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Sequence)
            and len(self) == len(other)
            and all(mine == theirs for mine, theirs in zip(self, other, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]
