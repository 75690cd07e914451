"""A single JSON document, streamed: trainer_state.json, rows, columns of numbers, results by checkpoint."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson

from scalerl.errors import UserError
from scalerl.record.columns import Columns, Log, Wanted, flatten
from scalerl.record.readers.groups import Grouper, add_rows
from scalerl.record.text import Head, iter_chunks

LONGEST_VALUE = 32 << 20
_MANY_CHARACTERS = 1 << 16
_ONE_BY_ONE = 200
_COMMAS_TRIED = 6
_COMMA = re.compile(r"\s*,")
_ROWS_A_BATCH = 1000
_SPACE = re.compile(r"[\s\ufeff]*")
_DECODER = json.JSONDecoder()
_BY_STEP = re.compile(r"(?:checkpoint|global_step|step|iter(?:ation)?|epoch)?[-_ ]?(\d{1,12})", re.IGNORECASE)


class JsonStream:
    """A cursor over a JSON text that never holds more than one value of it. Malformed text is a UserError."""

    def __init__(self, head: Head) -> None:
        self.path = head.path
        self._chunks = iter_chunks(head.path, head.encoding)
        self._text = ""
        self._at = 0
        self._ended = False
        self._singly = 0  # elements still to be taken one by one

    def _more(self) -> bool:
        chunk = "" if self._ended else next(self._chunks, None)
        if chunk is None or self._ended:
            self._ended = True
            return False
        self._text = self._text[self._at :] + chunk
        self._at = 0
        return True

    def peek(self) -> str:
        """The next character that isn't white space; '' at the end."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, expected: str) -> bool:
        """Step over one character if it is the expected one."""
        if self.peek() != expected:
            return False
        self._at += 1
        return True

    def value(self) -> Any:
        """The next whole value."""
        self.peek()
        wanted = 1 << 16
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except ValueError as error:
                if len(self._text) - self._at > LONGEST_VALUE:
                    raise UserError(f"{self.path}: not valid JSON, or one value above 32 MB") from None
                if not self._grow(wanted):
                    raise self._malformed(str(error).split("(")[0].strip()) from None
            except RecursionError:
                raise UserError(f"{self.path}: JSON nested too deeply to be a log") from None
            else:
                if end < len(self._text) or not self._grow(1):
                    self._at = end
                    return value
            wanted *= 2

    def _grow(self, characters: int) -> bool:
        before = len(self._text) - self._at
        while len(self._text) - self._at < before + characters and self._more():
            pass
        return len(self._text) - self._at > before

    def _malformed(self, why: str) -> UserError:
        return UserError(
            f"{self.path}: the JSON ends early or isn't valid ({why}); was the file cut by a crash?"
        )

    def batches(self) -> Iterator[list[Any]]:
        """The elements of the array that begins here, some at a time."""
        if not self.take("["):
            raise self._malformed("expected '['")
        if self.take("]"):
            return
        while True:
            yield from self._many()
            yield [self.value()]
            if self.take("]"):
                return
            if not self.take(","):
                raise self._malformed("expected ',' or ']'")

    def _many(self) -> Iterator[list[Any]]:
        """Elements that lie whole in what is read already, with the comma behind each, parsed together.

        A text that is a list of JSON values can be nothing else, wherever it was cut. Where none is found,
        the next elements are taken one by one for a while.
        """
        while self._singly == 0:
            if len(self._text) - self._at < _MANY_CHARACTERS:
                self._more()
            for comma in self._commas():
                try:
                    found = orjson.loads(f"[{self._text[self._at : comma]}]")
                except orjson.JSONDecodeError:
                    continue
                self._at = comma + 1
                yield found
                break
            else:
                self._singly = _ONE_BY_ONE
        self._singly -= 1

    def _commas(self) -> Iterator[int]:
        """Where elements may end, the farthest places first: after objects, or between numbers."""
        first = self.peek()
        stop = self._at + _MANY_CHARACTERS
        if first == "{":
            for _ in range(_COMMAS_TRIED):
                stop = self._text.rfind("}", self._at, stop)
                if stop < 0:
                    return
                if match := _COMMA.match(self._text, stop + 1):
                    yield match.end() - 1
        else:
            bracket = self._text.find("]", self._at, stop)
            comma = self._text.rfind(",", self._at, stop if bracket < 0 else bracket)
            if comma > self._at:
                yield comma

    def members(self) -> Iterator[str]:
        """The keys of the object that begins here; the caller takes each key's value before the next."""
        if not self.take("{"):
            raise self._malformed("expected '{'")
        if self.take("}"):
            return
        while True:
            key = self.value()
            if not isinstance(key, str) or not self.take(":"):
                raise self._malformed("expected a key and ':'")
            yield key
            if self.take("}"):
                return
            if not self.take(","):
                raise self._malformed("expected ',' or '}'")


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
        best = max(tables, key=lambda name: max(c.rows for c in tables[name].runs.values()))
        log.format, log.runs, log.guesses = tables[best].format, tables[best].runs, tables[best].guesses
        if len(tables) > 1:
            log.guesses.append(f"rows taken from '{best}', the longest of {', '.join(tables)}")
    elif arrays.lengths:
        log.format, log.runs = "JSON of columns", {"": arrays.columns()}
    else:
        _no_rows(stream, flat)


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
