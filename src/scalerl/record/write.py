"""Writing a run record: append-only and crash-safe, so that a killed run goes on where it was."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scalerl.errors import UserError
from scalerl.record.lines import append_line, encode, keep_lines, mend_tail, write_atomic
from scalerl.record.prompts import PerPrompt, prompts_path, write_prompts
from scalerl.record.schema import Evaluation, RunHeader, parse_header, parse_model

EVALS, STEPS, EVENTS, TIMINGS = "evals.jsonl", "steps.jsonl", "events.jsonl", "timings.jsonl"


class RunWriter:
    """Appends to one record; every line is whole and flushed when the call returns. One writer a record."""

    def __init__(self, path: Path, header: RunHeader) -> None:
        self.path = path
        self.header = header

    @classmethod
    def create(cls, path: str | Path, header: RunHeader) -> RunWriter:
        """Begin a record in a new place; one that is there already is never overwritten (UserError)."""
        path = Path(path)
        if (path / "run.json").exists():
            raise UserError(f"{path}: holds a run record already; resume it, or choose another place")
        path.mkdir(parents=True, exist_ok=True)
        write_atomic(path / "run.json", encode(header.model_dump(mode="json")))
        return cls(path, header)

    @classmethod
    def open(cls, path: str | Path) -> RunWriter:
        """Continue a record after its last whole line; a line torn by a crash is cut off, with a warning."""
        path = Path(path)
        if not (path / "run.json").exists():
            raise UserError(f"{path}: no run.json here, so no run record to continue")
        header = parse_header((path / "run.json").read_bytes(), path / "run.json")
        for left_over in (*path.glob(".*.tmp"), *path.glob("prompts/.*.tmp")):
            left_over.unlink()  # of an atomic write that was killed; a record has one writer
        for name in (EVALS, STEPS, EVENTS, TIMINGS):
            if mend_tail(path / name):
                warnings.warn(f"{path / name}: torn last line dropped", stacklevel=2)
        return cls(path, header)

    def step(self, row: Mapping[str, Any]) -> None:
        """Append one trainer step: any metrics, with `step` and `compute`. NaN becomes null."""
        if "step" not in row or "compute" not in row:
            raise ValueError("a step row needs `step` and `compute`")
        compute = row["compute"]
        plain = compute if isinstance(compute, Mapping) else compute.model_dump(exclude_none=True)
        append_line(self.path / STEPS, {**row, "compute": plain})

    def evaluation(
        self,
        evaluation: Evaluation,
        per_prompt: tuple[Sequence[str], Sequence[int], Sequence[int]] | PerPrompt | None = None,
    ) -> Evaluation:
        """Append one evaluation, with its per-prompt counts (prompt ids, passed, sampled) where known.

        The counts are on disk before the line is, and give `stderr` where the evaluation has none. Returns
        it as written.
        """
        if per_prompt is not None:
            counts = per_prompt if isinstance(per_prompt, PerPrompt) else PerPrompt.of(*per_prompt)
            write_prompts(prompts_path(self.path, evaluation), counts)
            if evaluation.stderr is None:
                evaluation = evaluation.model_copy(update={"stderr": counts.stderr()})
        append_line(self.path / EVALS, evaluation_row(evaluation))
        return evaluation

    def event(self, kind: str, message: str, **fields: Any) -> None:
        """Append a restart, an alarm, a skipped step. No wall time here: that belongs to timings."""
        append_line(self.path / EVENTS, {"kind": kind, "message": message, **fields})

    def timing(self, row: Mapping[str, Any]) -> None:
        """Append wall seconds by phase: the only place for what differs between two identical runs."""
        append_line(self.path / TIMINGS, dict(row))

    def rewind(self, step: int, evals: bool = True, steps: bool = True) -> int:
        """Drop the lines after `step` (of evals, of steps and their events), atomically; return how many.

        A run resumed from its checkpoint at `step` then repeats nothing. Their per-prompt files go too.
        """
        dropped = 0
        if steps:
            dropped += keep_lines(self.path / STEPS, lambda row: row["step"] <= step)
            dropped += keep_lines(self.path / EVENTS, lambda row: row.get("step", step) <= step)
        if evals:
            later: list[Evaluation] = []

            def keep(row: dict[str, Any]) -> bool:
                if row["step"] <= step:
                    return True
                later.append(parse_model(Evaluation, row, str(self.path / EVALS)))
                return False

            dropped += keep_lines(self.path / EVALS, keep)
            for evaluation in later:
                prompts_path(self.path, evaluation).unlink(missing_ok=True)
        return dropped


def evaluation_row(evaluation: Evaluation) -> dict[str, Any]:
    """The evaluation as evals.jsonl holds it: nothing that is None, no repeat that is 0."""
    row = evaluation.model_dump(mode="json", exclude_none=True)
    if not evaluation.repeat:
        del row["repeat"]
    return row
