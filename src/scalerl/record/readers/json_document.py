"""A single JSON document, streamed: trainer_state.json, rows, columns of numbers, results by checkpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from scalerl.errors import UserError
from scalerl.record.columns import Log, Wanted, flatten
from scalerl.record.readers.groups import Grouper
from scalerl.record.text import Head, iter_chunks

LONGEST_VALUE = 32 << 20
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

    def items(self) -> Iterator[Any]:
        """The elements of the array that begins here, one at a time."""
        if not self.take("["):
            raise self._malformed("expected '['")
        if self.take("]"):
            return
        while True:
            yield self.value()
            if self.take("]"):
                return
            if not self.take(","):
                raise self._malformed("expected ',' or ']'")

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
        _rows(stream, wanted, log, "")
    else:
        _object(stream, wanted, log)
    if not any(columns.rows for columns in log.runs.values()):
        raise UserError(f"{head.path}: this JSON holds no rows of metrics over steps; nothing to fit")
    return log


def _rows(stream: JsonStream, wanted: Wanted, log: Log, key: str) -> dict[str, list[float]]:
    """Rows of an array into the log; an array of numbers is returned as a column instead."""
    from scalerl.record.readers.groups import guess_groups

    grouper = Grouper(wanted, log)
    sample: list[dict[str, Any]] = []
    numbers: list[float] = []

    def settle() -> None:
        if not wanted.group:
            grouper.by = guess_groups(sample)
        for row in sample:
            grouper.columns_for(row).add(row.items())

    settled = False
    for item in stream.items():
        if isinstance(item, dict):
            flat = dict(flatten(item))
            if settled:
                grouper.columns_for(flat).add(flat.items())
            else:
                sample.append(flat)
                if len(sample) == 400:
                    settle()
                    settled = True
        elif isinstance(item, int | float) and not isinstance(item, bool):
            numbers.append(float(item) if abs(item) < 10**300 else float("inf"))
    if not settled:
        settle()
    grouper.finish()
    return {key: numbers} if numbers and not grouper.rows else {}


def _object(stream: JsonStream, wanted: Wanted, log: Log) -> None:
    """An object: an array of rows under some key, columns of numbers, or results by checkpoint."""
    columns: dict[str, list[float]] = {}
    tables: dict[str, Log] = {}
    flat: dict[str, Any] = {}
    for key in stream.members():
        if stream.peek() == "[":
            found = Log(f"JSON rows in '{key}'")
            columns |= _rows(stream, wanted, found, key)
            if any(table.rows for table in found.runs.values()):
                tables[key] = found
        else:
            value = stream.value()
            if isinstance(value, dict) and (step := _BY_STEP.fullmatch(key)):
                _checkpoint(int(step[1]), value, wanted, log)
            elif isinstance(value, dict):
                columns |= {f"{key}/{k}": v for k, v in value.items() if _numbers(v)}
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
    elif columns:
        _columns(columns, wanted, log)
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


def _columns(columns: dict[str, list[float]], wanted: Wanted, log: Log) -> None:
    """Arrays of equal length are a table; of unequal length, the most common length is."""
    lengths = [len(values) for values in columns.values()]
    common = max(set(lengths), key=lengths.count)
    log.format = "JSON of columns"
    table = log.one(wanted)
    for index in range(common):
        table.add((name, values[index]) for name, values in columns.items() if len(values) == common)
