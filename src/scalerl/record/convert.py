"""Writing a loaded run as a run record of scalerl's own, whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from scalerl.errors import UserError
from scalerl.record.lines import encode, write_atomic
from scalerl.record.prompts import prompts_path, write_prompts
from scalerl.record.run import Run
from scalerl.record.write import EVALS, EVENTS, STEPS, evaluation_row


def write_record(run: Run, path: Path) -> Path:
    """Write the run to a new folder; UserError where something is already there."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{path}: is there already; choose another place, or remove it")
    path.parent.mkdir(parents=True, exist_ok=True)
    building = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        building.mkdir()
        with open(building / EVALS, "wb") as file:
            file.writelines(encode(evaluation_row(e)) + b"\n" for e in run.evaluations)
        for name, rows in ((STEPS, run.steps), (EVENTS, run.events)):
            if rows:
                write_atomic(building / name, b"".join(encode(row) + b"\n" for row in rows))
        for evaluation in run.evaluations if run.per_prompt else ():
            if (counts := run.per_prompt.get(evaluation.key)) is not None:
                write_prompts(prompts_path(building, evaluation), counts)
        write_atomic(building / "run.json", encode(run.header.model_dump(mode="json")))
        if path.exists():
            path.rmdir()
        building.rename(path)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return path


def write_records(runs: dict[str, Run], path: Path) -> list[Path]:
    """One run becomes the record `path`; several become records in it, named after the runs."""
    if len(runs) == 1:
        return [write_record(next(iter(runs.values())), path)]
    places: dict[str, str] = {}
    for name in runs:
        slug = re.sub(r"[^A-Za-z0-9._=-]+", "_", name).strip("._") or "run"
        while slug in places.values():
            slug += "_"
        places[name] = slug
    return [write_record(run, path / places[name]) for name, run in runs.items()]
