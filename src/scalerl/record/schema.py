"""The run record's schema: the header (run.json), evaluations and compute, as frozen models."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from scalerl.errors import UserError

SCHEMA_VERSION = 1
HELD_OUT = "held_out"
HELD_OUT_LABEL = "held-out pass rate"
TRAIN_LABEL = "train reward, not held-out"
UNSTATED_KIND = "unstated"  # of devices of which only the count is known
UNSTATED_LABEL = "pass rate; the log doesn't say whether held out"

_Model = TypeVar("_Model", bound=BaseModel)


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Compute(_Frozen):
    """Cumulative compute since step 0, across resumes, stamped at the end of a trainer step.

    `device_hours` counts every reserved device, busy or idle. scalerl's own runs always have the tokens and
    the FLOPs; None says that another trainer's log didn't hold the number. `seconds` and `custom` (a field
    named by the user, see Provenance.x) are axes that only foreign logs have.
    """

    device_hours: float | None = Field(default=None, ge=0)
    tokens_generated: int | None = Field(default=None, ge=0)
    tokens_trained: int | None = Field(default=None, ge=0)
    flops: float | None = Field(default=None, ge=0)
    seconds: float | None = Field(default=None, ge=0)
    custom: float | None = Field(default=None, ge=0)


class Devices(_Frozen):
    """What the run reserved: device kind and how many of them generate and train."""

    kind: str
    generators: int = Field(ge=0)
    trainers: int = Field(ge=0)

    @property
    def total(self) -> int:
        """All reserved devices."""
        return self.generators + self.trainers


class Evaluation(_Frozen):
    """One line of evals.jsonl: a pass over one held-out set with one policy version.

    `samples` counts the completions that were judged, over all prompts; `truncated` counts those that ran
    into the limit (they are wrong). `stderr` is the sampling part of the pass rate's standard error, the
    prompts being fixed. Evaluations are told apart by (set, step, repeat): `repeat` numbers several of one
    policy.
    """

    step: int
    policy_version: int | None = None
    set: str = HELD_OUT
    pass_rate: float
    prompts: int | None = Field(default=None, ge=0)
    samples: int | None = Field(default=None, ge=0)
    stderr: float | None = Field(default=None, ge=0)
    truncated: int | None = Field(default=None, ge=0)
    mean_length: float | None = None
    compute: Compute
    domain: str | None = None
    repeat: int = Field(default=0, ge=0)

    @property
    def key(self) -> tuple[str, int, int]:
        """What makes two lines the same evaluation: (set, step, repeat)."""
        return (self.set, self.step, self.repeat)


class Provenance(_Frozen):
    """What a reader took from another trainer's log, and what it left.

    `x` and `y` are the log's own field names, `axis` the compute axis that x became, `points` the points
    kept on the curve of `y`. `dropped` counts what was left out, by reason; `other_y` are fields that `y=`
    could name instead.
    """

    format: str
    path: str
    x: str
    y: str
    axis: str
    points: int
    dropped: dict[str, int] = {}
    guesses: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    scale: str = "unit"
    other_y: tuple[str, ...] = ()

    def describe(self) -> str:
        """A few lines for a terminal: what was taken for what, what was dropped, what was guessed."""
        head = f"{self.path}: {self.format}; y = {self.y}, x = {self.x} ({self.axis})"
        lines = [f"{head}; {self.points} points"]
        lines += [f"  dropped {count}: {reason}" for reason, count in self.dropped.items()]
        lines += [f"  guessed: {guess}" for guess in self.guesses]
        lines += [f"  warning: {warning}" for warning in self.warnings]
        if self.other_y:
            shown = ", ".join(self.other_y[:6]) + (", ..." if len(self.other_y) > 6 else "")
            lines.append(f"  other fields for --y: {shown}")
        return "\n".join(lines)


class RunHeader(_Frozen):
    """run.json: what is known before the first step. `recipe`, `clock` and `extra` are plain JSON."""

    schema_version: int = SCHEMA_VERSION
    name: str
    recipe: dict[str, Any] | None = None
    model: dict[str, Any] | str | None = None
    task: dict[str, Any] | str | None = None
    held_out_hash: str | None = None
    seed: int | None = None
    devices: Devices | None = None
    clock: dict[str, Any] | None = None
    started: str | None = None
    versions: dict[str, str] = {}
    parent: str | None = None
    labels: dict[str, str] = {}
    source: Provenance | None = None
    extra: dict[str, Any] = {}

    def label(self, set_name: str) -> str:
        """What the pass rate of a set is: held out unless the header says otherwise."""
        return self.labels.get(set_name, HELD_OUT_LABEL)


def parse_model(model: type[_Model], data: Any, where: str) -> _Model:
    """Validate plain data as `model`; a UserError names the place, the field and what is wrong with it."""
    if not isinstance(data, dict):
        raise UserError(f"{where}: expected a JSON object, found {type(data).__name__}")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "(whole)"
        value = repr(first.get("input"))
        shown = value if len(value) <= 60 else value[:57] + "..."
        raise UserError(f"{where}: field '{field}': {first['msg']} (found {shown})") from None


def parse_header(text: bytes, path: Path) -> RunHeader:
    """Parse run.json; other schema versions are refused by name, before any field is looked at."""
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UserError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: expected a JSON object, found {type(data).__name__}")
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        raise UserError(
            f"{path}: field 'schema_version' is {version!r}, this scalerl reads {SCHEMA_VERSION}; "
            "use the scalerl that wrote the record, or convert it"
        )
    return parse_model(RunHeader, data, str(path))
