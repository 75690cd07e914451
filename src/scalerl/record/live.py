"""A run record written while another trainer trains: what the TRL callback and the verl back end share."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scalerl.record.axes import FLOPS_PER_TOKEN, parse_devices
from scalerl.record.columns import as_number
from scalerl.record.fields import companions, preference, role_of
from scalerl.record.native import load_record
from scalerl.record.scale import bounds
from scalerl.record.schema import TRAIN_LABEL, Compute, Evaluation, RunHeader
from scalerl.record.write import RunWriter

TRAIN_SET = "train_reward"


class LiveRecord:
    """Takes a trainer's metrics as they come and appends them to a run record.

    Held-out fields become evaluations of a set named after the field; the train reward becomes the set
    'train_reward', labelled as not held out. `y` names the one field to take instead, `scale` says what the
    values mean (as in `scalerl.load`); values outside it are left out, with one event that says so. A
    record that is there already is continued: what it holds from the first logged step on is dropped, the
    trainer redoes it.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        y: str | None = None,
        scale: str = "unit",
        devices: str | None = None,
        params: float | None = None,
    ) -> None:
        self.path = Path(path)
        self.y, self.scale, self.params = y, scale, params
        bounds(scale)
        self.devices = parse_devices(devices) if devices else None
        self.name = name or self.path.name
        self._writer: RunWriter | None = None
        self._step = 0
        self._row: dict[str, Any] = {}
        self._tokens: float | None = None
        self._seconds = 0.0
        self._clock = time.monotonic()
        self._refused: set[str] = set()

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Record the metrics logged at a step; several calls for one step add up."""
        writer = self._writer or self._begin(step)
        numbers = {k: v for k, raw in metrics.items() if (v := _number(raw, k)) is not None}
        self._account(step, numbers)
        compute = self._compute()
        same = self._row.get("step") == step
        self._row = {**(self._row if same else {}), **numbers, "step": step, "compute": compute}
        writer.step(self._row)
        for field, set_name in self._rates(numbers):
            rate = self._rate(field, numbers)
            if rate is not None:
                writer.evaluation(Evaluation(step=step, set=set_name, pass_rate=rate, compute=compute))

    def _begin(self, step: int) -> RunWriter:
        if (self.path / "run.json").exists():
            writer = RunWriter.open(self.path)
            writer.rewind(step - 1)
            steps = load_record(self.path).steps
            if steps:
                before = Compute.model_validate(steps[-1]["compute"])
                self._step, self._seconds, self._tokens = (
                    steps[-1]["step"],
                    before.seconds or 0.0,
                    before.tokens_trained,
                )
            writer.event("restart", f"logging goes on at step {step}", step=step)
        else:
            header = RunHeader(name=self.name, devices=self.devices, labels={TRAIN_SET: TRAIN_LABEL})
            writer = RunWriter.create(self.path, header)
        self._writer = writer
        return writer

    def _account(self, step: int, numbers: Mapping[str, float]) -> None:
        """Add what the step cost: its own seconds and tokens where logged, else the wall clock."""
        since = max(0, step - self._step)
        seconds = [v for k, v in numbers.items() if role_of(k) == "seconds_step" and v >= 0]
        now = time.monotonic()
        if since:
            self._seconds += seconds[0] * since if seconds else now - self._clock
            self._clock = now
        for field, value in numbers.items():
            if role_of(field) == "tokens_total" and not field.startswith("eval"):
                self._tokens = max(self._tokens or 0.0, value)
                break
        else:
            spent = [v for k, v in numbers.items() if role_of(k) == "tokens_step" and v >= 0]
            if spent and since:
                self._tokens = (self._tokens or 0.0) + spent[0] * since
        self._step = max(self._step, step)

    def _compute(self) -> Compute:
        tokens = None if self._tokens is None else int(self._tokens)
        flops = FLOPS_PER_TOKEN * self.params * tokens if self.params and tokens is not None else None
        hours = self._seconds * self.devices.total / 3600.0 if self.devices else None
        return Compute(device_hours=hours, tokens_trained=tokens, flops=flops, seconds=self._seconds)

    def _rates(self, numbers: Mapping[str, float]) -> list[tuple[str, str]]:
        """(field, set) of what is to be recorded as evaluations."""
        if self.y is not None:
            return [(self.y, self.y)] if self.y in numbers else []
        found = [(k, k) for k in numbers if role_of(k) == "held_out"]
        train = sorted((k for k in numbers if role_of(k) == "train"), key=preference)
        return found + ([(train[0], TRAIN_SET)] if train else [])

    def _rate(self, field: str, numbers: Mapping[str, float]) -> float | None:
        """The pass rate behind a value, or None, with one event, where it can't be one."""
        low, high = bounds(self.scale)
        seen = [numbers[other] for other in (field, *companions(field)) if other in numbers]
        if self.scale != "unit":
            seen = seen[:1]
        if all(low - 1e-6 <= value <= high + 1e-6 for value in seen):
            return min(1.0, max(0.0, (numbers[field] - low) / (high - low)))
        if field not in self._refused and self._writer is not None:
            self._refused.add(field)
            shown = ", ".join(f"{value:g}" for value in seen)
            self._writer.event(
                "alarm", f"{field} isn't a pass rate on scale {self.scale} ({shown}): left out"
            )
        return None


def _number(raw: Any, name: str) -> float | None:
    """A finite number behind what a trainer logs: Python and NumPy numbers, one-element tensors, text."""
    value = raw
    if hasattr(raw, "item"):
        try:
            value = raw.item()
        except (TypeError, ValueError, RuntimeError):  # an array or tensor of several elements
            return None
    number = as_number(value, name)
    return number if number is not None and math.isfinite(number) else None
