"""Loading scalerl's own run record from its directory."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scalerl.errors import UserError
from scalerl.record.lines import read_lines
from scalerl.record.prompts import prompts_path, read_prompts
from scalerl.record.run import Run
from scalerl.record.schema import Compute, Evaluation, parse_header, parse_model
from scalerl.record.write import EVALS, EVENTS, STEPS, TIMINGS


def is_record(path: Path) -> bool:
    """Whether a directory is a run record."""
    return (path / "run.json").is_file()


def load_record(path: Path) -> Run:
    """Load a record that may still be written; of a repeated step the last line wins; sorted by step."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        header = parse_header((path / "run.json").read_bytes(), path / "run.json")
        evaluations = _evaluations(path / EVALS)
        steps = _steps(path / STEPS)
        events = tuple(row for _, row in read_lines(path / EVENTS))
        timings = tuple(row for _, row in read_lines(path / TIMINGS))
    for warning in caught:
        warnings.warn(str(warning.message), stacklevel=2)
    counts = {e.key: read_prompts(prompts_path(path, e)) for e in evaluations}
    return Run(
        path=path,
        header=header,
        evaluations=evaluations,
        steps=steps,
        events=events,
        timings=timings,
        per_prompt=MappingProxyType({key: found for key, found in counts.items() if found is not None}),
        warnings=tuple(str(warning.message) for warning in caught),
    )


def _evaluations(path: Path) -> tuple[Evaluation, ...]:
    latest: dict[tuple[str, int, int], Evaluation] = {}
    for number, row in read_lines(path):
        evaluation = parse_model(Evaluation, row, f"{path}:{number}")
        latest.pop(evaluation.key, None)
        latest[evaluation.key] = evaluation
    return tuple(sorted(latest.values(), key=lambda e: e.step))


def _steps(path: Path) -> tuple[dict[str, Any], ...]:
    latest: dict[int, dict[str, Any]] = {}
    for number, row in read_lines(path):
        step = row.get("step")
        if not isinstance(step, int) or isinstance(step, bool):
            raise UserError(f"{path}:{number}: field 'step' must be a whole number (found {step!r})")
        parse_model(Compute, row.get("compute"), f"{path}:{number}: field 'compute'")
        latest[step] = row
    return tuple(latest[step] for step in sorted(latest))
