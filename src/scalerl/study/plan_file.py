"""A study from a file: what its runs share, and what each changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scalerl.errors import UserError
from scalerl.loop.config_file import config_error, run_config_from
from scalerl.recipe.mapping_file import read_mapping
from scalerl.study.plan import StudyPlan


def load_plan(path: Path) -> StudyPlan:
    """Read a study file.

    `name`, optionally `fit_fraction` and `shared` (fields of a config that all runs have), and `runs`: a list
    of configs, each with what differs. Raises UserError that names file, field and value.
    """
    data = read_mapping(path)
    shared, runs = data.pop("shared", {}), data.get("runs")
    if not isinstance(shared, dict):
        raise UserError(f"{path}: field shared: a mapping of a run's fields is wanted")
    if not isinstance(runs, list) or not runs:
        raise UserError(f"{path}: field runs: a list of runs is wanted, at least one")
    data["runs"] = [_run(shared, run, f"{path}: runs.{number}") for number, run in enumerate(runs)]
    try:
        return StudyPlan.model_validate(data)
    except ValidationError as error:
        raise config_error(error, str(path), StudyPlan) from None


def _run(shared: dict[str, Any], run: Any, where: str) -> Any:
    if not isinstance(run, dict):
        raise UserError(f"{where}: a mapping of the run's fields is wanted")
    return run_config_from({**shared, **run}, where)
