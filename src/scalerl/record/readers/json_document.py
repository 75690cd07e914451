"""A single JSON document, streamed: trainer_state.json, rows, columns of numbers, results by checkpoint."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from scalerl.errors import UserError
from scalerl.record.columns import Columns, Log, Wanted, flatten
from scalerl.record.fields import role_of
from scalerl.record.readers.groups import Grouper, add_rows
from scalerl.record.readers.json_stream import JsonStream
from scalerl.record.text import Head

_ROWS_A_BATCH = 1000
_BY_STEP = re.compile(r"(?:checkpoint|global_step|step|iter(?:ation)?|epoch)?[-_ ]?(\d{1,12})", re.IGNORECASE)


def read_json_document(head: Head, wanted: Wanted) -> Log:
    """Read one JSON document of any of the known shapes; UserError where it has no rows."""
    stream = JsonStream(head)
    log = Log("JSON rows")
    if stream.peek() == "[":
        _rows(stream, wanted, log, "", Arrays(wanted, log))
    else:
        _object(stream, wanted, log)
    if not any(columns.rows for columns in log.runs.values()):
        raise UserError(f"{head.path}: this JSON holds no rows of metrics over steps; nothing to fit")
    return log


def _rows(stream: JsonStream, wanted: Wanted, log: Log, key: str, arrays: Arrays) -> None:
    """Rows of an array into the log; an array of numbers is a column of `arrays` instead."""
    grouper = Grouper(wanted, log)
    rows: list[dict[str, Any]] = []
    numbers: list[float] = []
    for batch in stream.batches():
        numbers += (item for item in batch if isinstance(item, int | float) and not isinstance(item, bool))
        rows += (item for item in batch if isinstance(item, dict))
        if len(rows) + len(numbers) >= _ROWS_A_BATCH:
            arrays.extend(key, numbers)
            add_rows(grouper, rows)
            rows, numbers = [], []
    arrays.extend(key, numbers)
    add_rows(grouper, rows)
    if grouper.rows:
        arrays.forget(key)
    grouper.finish()


class Arrays:
    """Arrays of numbers under keys of one object: columns of a table, if they are of one length."""

    def __init__(self, wanted: Wanted, log: Log) -> None:
        self.table = Columns(wanted, log.budget)
        self.lengths: dict[str, int] = {}

    def extend(self, key: str, numbers: list[float]) -> None:
        """Add numbers to an array."""
        if not numbers:
            return
        begin = self.lengths.get(key, 0)
        self.lengths[key] = begin + len(numbers)
        if self.table.wants(key):
            places = np.arange(begin, begin + len(numbers)) - self.table.rows
            finite = [number if abs(number) < 10**300 else math.inf for number in numbers]
            self.table.put_rows(key, np.array(finite, np.float64), places)
        self.table.end_row(max(0, self.lengths[key] - self.table.rows))

    def forget(self, key: str) -> None:
        """Numbers among rows of another kind are no column."""
        if self.lengths.pop(key, None) is not None:
            self.table.remove(key)

    def columns(self) -> Columns:
        """The table of the arrays of the most common length."""
        lengths = list(self.lengths.values())
        common = max(set(lengths), key=lengths.count)
        for key, length in self.lengths.items():
            if length != common:
                self.table.remove(key)
        return self.table


def _object(stream: JsonStream, wanted: Wanted, log: Log) -> None:
    """An object: an array of rows under some key, columns of numbers, or results by checkpoint."""
    arrays = Arrays(wanted, log)
    tables: dict[str, Log] = {}
    flat: dict[str, Any] = {}
    for key in stream.members():
        if stream.peek() == "[":
            found = Log(f"JSON rows in '{key}'", budget=log.budget)
            _rows(stream, wanted, found, key, arrays)
            if any(table.rows for table in found.runs.values()):
                tables[key] = found
        else:
            value = stream.value()
            if isinstance(value, dict) and (step := _BY_STEP.fullmatch(key)):
                _checkpoint(int(step[1]), value, wanted, log)
            elif isinstance(value, dict) and _has_steps(value):
                tables[key] = Log(f"JSON of columns in '{key}'", {"": _inner_columns(value, wanted, log)})
            elif isinstance(value, dict):
                for inner, numbers in value.items():
                    arrays.extend(f"{key}/{inner}", numbers if _numbers(numbers) else [])
                flat[key] = value
            else:
                flat[key] = value
    if "log_history" in tables:
        log.format, log.runs = "transformers trainer_state.json", tables["log_history"].runs
        log.guesses += tables["log_history"].guesses
    elif log.runs:
        log.format = "JSON of evaluations by checkpoint"
        log.repeats = True
    elif tables:
        _take_tables(tables, log)
    elif arrays.lengths:
        log.format, log.runs = "JSON of columns", {"": arrays.columns()}
    else:
        _no_rows(stream, flat)


def _take_tables(tables: dict[str, Log], log: Log) -> None:
    """The longest of the tables under an object's keys; those with the same fields are runs, told apart."""
    best = max(tables, key=lambda name: max(c.rows for c in tables[name].runs.values()))
    alike = [name for name in tables if _fields_of(tables[name]) == _fields_of(tables[best])]
    if len(alike) > 1:
        log.format = "JSON of runs by name"
        log.runs = {f"{name} {run}".strip(): c for name in alike for run, c in tables[name].runs.items()}
        return
    log.format, log.runs, log.guesses = tables[best].format, tables[best].runs, tables[best].guesses
    if len(tables) > 1:
        log.guesses.append(f"rows taken from '{best}', the longest of {', '.join(tables)}")


def _fields_of(table: Log) -> set[str]:
    return {name for columns in table.runs.values() for name in columns.names}


def _has_steps(value: dict[str, Any]) -> bool:
    """Whether an inner object is a table of columns of its own: one of its arrays counts steps."""
    return any(role_of(name) == "step" and _numbers(numbers) for name, numbers in value.items())


def _inner_columns(value: dict[str, Any], wanted: Wanted, log: Log) -> Columns:
    arrays = Arrays(wanted, log)
    for name, numbers in value.items():
        arrays.extend(name, numbers if _numbers(numbers) else [])
    return arrays.columns()


def _no_rows(stream: JsonStream, flat: dict[str, Any]) -> None:
    if "_wandb" in flat or {"_step", "_runtime", "_timestamp"} <= flat.keys():
        raise UserError(
            f"{stream.path}: a W&B summary, the last values only: no curve in it; give the run's directory, "
            "its .wandb file or its output.log"
        )
    raise UserError(f"{stream.path}: this JSON holds no rows of metrics over steps; nothing to fit")


def _numbers(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 1
        and all(isinstance(item, int | float) and not isinstance(item, bool) for item in value)
    )


def _checkpoint(step: int, results: dict[str, Any], wanted: Wanted, log: Log) -> None:
    """One checkpoint's results; a list of numbers is the same evaluation repeated, one row each."""
    columns = log.one(wanted)
    flat = dict(flatten(results))
    repeats = max((len(value) for value in flat.values() if _numbers(value)), default=1)
    for index in range(repeats):
        row: list[tuple[str, Any]] = [("step", step)]
        for name, value in flat.items():
            if _numbers(value):
                row += [(name, value[index])] if index < len(value) else []
            elif index == 0:
                row.append((name, value))
        columns.add(row)
