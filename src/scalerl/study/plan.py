"""A study as data: runs that differ in one thing each, and how they are fitted."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scalerl.loop.config import RunConfig


class StudyPlan(BaseModel):
    """Runs and the share of the compute that the forecast may see."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    name: str
    """The study's name."""
    runs: tuple[RunConfig, ...]
    """What is run, in this order, as many at a time as the machine has cores."""
    fit_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Share of each run's compute that is fitted; the rest judges the forecast."""

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [run.name for run in self.runs]
        if len(set(names)) < len(names):
            raise ValueError("two runs of the study share a name")
        return self
