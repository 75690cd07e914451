"""What `scalerl eval` evaluates: sets, checkpoints, and the points that come of them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalerl.errors import UserError

if TYPE_CHECKING:
    from scalerl.cli.eval_sampling import SamplingPlan
    from scalerl.record.schema import Compute
    from scalerl.task.build import EvaluationSet
    from scalerl.task.evaluate import EvaluationResult
    from scalerl.task.evaluation import EvaluationSummary
    from scalerl.task.spec import TaskSpec

_STEP = re.compile(r"step-(\d+)")


@dataclass(frozen=True, slots=True)
class CheckpointFolder:
    """A model folder; `step` where it is one of a run's checkpoints."""

    path: Path
    step: int | None


@dataclass(frozen=True, slots=True)
class Point:
    """One checkpoint on one set."""

    checkpoint: CheckpointFolder
    result: EvaluationResult

    def as_dict(self) -> dict[str, Any]:
        """Everything for machines, per-prompt counts included."""
        result = self.result
        return {
            "checkpoint": str(self.checkpoint.path),
            "step": self.checkpoint.step,
            "set": result.name,
            **_summary(result.summary),
            "truncated": result.truncated,
            "verifier_failed": result.verifier_failed,
            "mean_length_tokens": result.mean_length_tokens,
            "domains": {name: _summary(summary) for name, summary in result.domains.items()},
            "per_prompt": {
                "prompt_ids": list(result.counts.prompt_ids),
                "passed": result.counts.passed.tolist(),
                "sampled": result.counts.sampled.tolist(),
            },
        }


def _summary(summary: EvaluationSummary) -> dict[str, Any]:
    plain = dataclasses.asdict(summary)
    plain["pass_at_k"] = {str(p.k): {"value": p.value, "stderr": p.prompt_stderr} for p in summary.pass_at_k}
    return plain


def parse_sets(
    on: Sequence[str],
    *,
    thinking: str | None = None,
    instruction: str | None = None,
    unsafe_no_sandbox: bool = False,
) -> list[EvaluationSet]:
    """The sets that `--on` names. A comma separates sets, except before `field=value`, which belongs to its
    set.
    """
    from scalerl.task.build import build_evaluation_set
    from scalerl.task.spec import parse_spec

    if thinking not in (None, "auto", "open", "off"):
        raise UserError(f"--thinking {thinking!r}: choose auto, open or off")
    given = {"thinking": thinking, "instruction": instruction}
    style = {field: value for field, value in given.items() if value is not None}
    names: list[str] = []
    for piece in (piece for text in on for piece in text.split(",")):
        if "=" in piece.split(":")[0] and names:
            names[-1] += f",{piece}"
        elif piece.strip():
            names.append(piece.strip())
    if not names:
        raise UserError("--on: name at least one set, such as math500:FILE or reasoning_gym:chain_sum")
    return [build_evaluation_set(_restyled(parse_spec(name), style, unsafe_no_sandbox)) for name in names]


def _restyled(spec: TaskSpec, style: dict[str, str], unsafe_no_sandbox: bool) -> TaskSpec:
    """The spec, and the parts of a mixture, with what the command line says of prompts and programs."""
    code = {"unsafe_no_sandbox": True} if unsafe_no_sandbox else {}
    parts = [
        part.model_copy(update={"task": _restyled(part.task, style, unsafe_no_sandbox)})
        for part in spec.parts
    ]
    return spec.model_copy(
        update={
            "prompt": spec.prompt.model_copy(update=style),
            "code": spec.code.model_copy(update=code),
            "parts": tuple(parts),
        }
    )


def find_checkpoints(target: Path) -> list[CheckpointFolder]:
    """The folder itself if it is a model, else a run's starting policy and checkpoints, by step.

    Raises UserError.
    """
    if (target / "config.json").is_file():
        return [CheckpointFolder(target, _step_of(target))]
    folder = target / "checkpoints"
    found = [
        CheckpointFolder(path, step) for path in folder.glob("step-*") if (step := _step_of(path)) is not None
    ]
    if not found:
        raise UserError(
            f"{target}: neither a Hugging Face model folder (config.json) nor a run with checkpoints/"
        )
    return [*_starting_policy(target), *sorted(found, key=lambda checkpoint: checkpoint.step or 0)]


def _starting_policy(run_folder: Path) -> list[CheckpointFolder]:
    """The model that a run began with, as step 0, where it is still there with the same weights."""
    from scalerl.loop.run import config_of_record
    from scalerl.loop.setup import model_folder, weights_hash
    from scalerl.record.schema import parse_header

    header_file = run_folder / "run.json"
    if not header_file.is_file():
        return []
    header = parse_header(header_file.read_bytes(), header_file)
    known = header.model.get("weights_hash") if isinstance(header.model, dict) else None
    if known is None:
        return []
    folder = model_folder(config_of_record(run_folder))
    return [CheckpointFolder(folder, 0)] if weights_hash(folder) == known else []


def _step_of(path: Path) -> int | None:
    found = _STEP.fullmatch(path.name)
    return int(found.group(1)) if found else None


def evaluate_checkpoint(
    checkpoint: CheckpointFolder, sets: Sequence[EvaluationSet], plan: SamplingPlan
) -> Iterator[Point]:
    """Load a model once and evaluate it on every set."""
    from scalerl.cli.eval_sampling import engine_sampler, load_model
    from scalerl.task.build import build_prompter
    from scalerl.task.evaluate import evaluate

    policy = load_model(checkpoint.path, plan)
    for evaluation_set in sets:
        prompter = build_prompter(evaluation_set.spec, checkpoint.path)
        sampler = engine_sampler(policy, prompter, plan)
        result = evaluate(evaluation_set, prompter, sampler, plan.samples, most_prompts=plan.prompts)
        yield Point(checkpoint, result)


class Recorder:
    """Appends points to a run's own record, stamped with the compute of their steps. Raises UserError."""

    def __init__(self, run_folder: Path) -> None:
        from scalerl.loop.record_lock import lock_record
        from scalerl.record.load import load
        from scalerl.record.schema import HELD_OUT
        from scalerl.record.write import RunWriter

        if not (run_folder / "run.json").is_file():
            raise UserError(f"{run_folder}: --record needs a run's folder (with run.json), not a model's")
        self._lock = lock_record(run_folder)
        run = load(run_folder)
        self._compute: dict[int, Compute] = {e.step: e.compute for e in run.evaluations}
        for row in run.steps:
            self._compute.setdefault(int(row["step"]), _as_compute(row["compute"]))
        self._own_sets = {HELD_OUT, *(e.set for e in run.evaluations if e.domain is not None)}
        self._writer = RunWriter.open(run_folder)
        self._folder = run_folder

    def check(self, sets: Sequence[EvaluationSet]) -> None:
        """Raise UserError for a name that the run or another set has: points would be written over."""
        names = [one.name for one in sets]
        for one in sets:
            if names.count(one.name) > 1:
                raise UserError(f"--record: two sets are called {one.name!r}; record one of them")
            if one.name in self._own_sets:
                raise UserError(
                    f"--record: {self._folder} has a held-out set {one.name!r} of its own; "
                    f"evaluate without --record, or give its file another name: math:FILE,name=NAME"
                )

    def write(self, point: Point) -> None:
        """Append one evaluation."""
        from scalerl.record.prompts import PerPrompt
        from scalerl.record.schema import Evaluation

        step, result = point.checkpoint.step, point.result
        if step is None or step not in self._compute:
            raise UserError(
                f"{self._folder}: no compute is recorded at step {step}, so its point has no place"
            )
        self._writer.evaluation(
            Evaluation(
                step=step,
                policy_version=step,
                set=result.name,
                pass_rate=result.summary.pass_rate,
                prompts=result.summary.prompts,
                samples=result.summary.samples,
                stderr=result.summary.sampling_stderr,
                truncated=result.truncated,
                mean_length=result.mean_length_tokens,
                compute=self._compute[step],
            ),
            PerPrompt.of(
                result.counts.prompt_ids, result.counts.passed.tolist(), result.counts.sampled.tolist()
            ),
        )


def _as_compute(value: Any) -> Compute:
    from scalerl.record.schema import Compute

    return value if isinstance(value, Compute) else Compute.model_validate(value)
