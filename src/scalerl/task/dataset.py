"""From rows to examples: columns, answers, tests, duplicates; with a count of everything left out."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from scalerl.errors import UserError
from scalerl.task.catalogue import NamedSet, column, named_set, own_set
from scalerl.task.code_tests import BadTests, CodeTests
from scalerl.task.protocol import Example
from scalerl.task.rows import Row, hub_rows, read_rows
from scalerl.task.spec import CodeSettings, ColumnNames, TaskSpec
from scalerl.task.split import prompt_id

log = logging.getLogger("scalerl.task")

MATH_INSTRUCTION = "\n\nPut your final answer within \\boxed{}."
_CODE = "\n\nWrite Python{what}. Put the whole solution in one code block: ```python ... ```."
CODE_INSTRUCTION = _CODE.format(what=" that reads from standard input and writes to standard output")
FUNCTION_INSTRUCTION = _CODE.format(what=" that completes this code:\n```python\n{starter}\n```\n")


@dataclass
class DataReport:
    """What became of a data set's rows."""

    rows: int = 0
    kept: int = 0
    duplicates: int = 0
    conflicting_duplicates: int = 0
    without_prompt: int = 0
    without_answer: int = 0
    unreadable_tests: int = 0
    too_large_tests: int = 0
    outside_dates: int = 0
    contaminated: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        left_out = {
            k: v for k, v in vars(self).items() if isinstance(v, int) and v and k not in ("rows", "kept")
        }
        return f"{self.kept} of {self.rows} rows" + (f"; left out: {left_out}" if left_out else "")


@dataclass(frozen=True, slots=True)
class LoadedSet:
    """Distinct examples of one set, in row order, and what was left out."""

    examples: tuple[Example, ...]
    report: DataReport
    source: str


def load_set(spec: TaskSpec) -> LoadedSet:
    """Load what a spec of kind dataset, math_file or code_file names; raises UserError."""
    chosen = _chosen_set(spec)
    if spec.path is not None:
        source, rows = spec.path, read_rows(spec.path)
    else:
        source = chosen.hub_id
        rows = iter(hub_rows(chosen.hub_id, spec.subset or chosen.subset, spec.split or chosen.split))
    examples, report = read_examples(rows, chosen, spec, source)
    log.info("%s: %s", source, report)
    return LoadedSet(examples, report, source)


def _chosen_set(spec: TaskSpec) -> NamedSet:
    if spec.kind == "dataset":
        chosen = named_set(spec.name or "")
        if spec.columns is not None:
            changed = own_set(chosen.domain, spec.columns)
            chosen = replace(changed, hub_id=chosen.hub_id, subset=chosen.subset, split=chosen.split)
        return chosen
    return own_set("math" if spec.kind == "math_file" else "code", spec.columns or ColumnNames())


def read_examples(
    rows: Iterable[Row], chosen: NamedSet, spec: TaskSpec, source: str
) -> tuple[tuple[Example, ...], DataReport]:
    """Turn rows into distinct examples; the first of several rows with one prompt stays.

    Raises UserError when no row is usable, saying why.
    """
    report = DataReport()
    found: dict[str, Example] = {}
    columns: list[str] = []
    for row in rows:
        report.rows += 1
        columns = columns or sorted(row)
        example = _example(row, chosen, spec, report)
        if example is None:
            continue
        if example.id in found:
            report.duplicates += 1
            report.conflicting_duplicates += example.answer != found[example.id].answer
        else:
            found[example.id] = example
    report.kept = len(found)
    if not found:
        wanted = [*chosen.prompt, *(chosen.answer if chosen.tests_of is None else ("tests",))]
        raise UserError(
            f"{source}: no usable row ({report}); columns looked for: {', '.join(wanted)}; found: "
            f"{', '.join(columns) or 'none'}; set the task field 'columns'"
            + "".join(f"; {reason}" for reason in list(report.reasons)[:1])
        )
    return tuple(found.values()), report


def _example(row: Row, chosen: NamedSet, spec: TaskSpec, report: DataReport) -> Example | None:
    prompt = _text(_first(row, chosen.prompt))
    if not prompt:
        report.without_prompt += 1
        return None
    if chosen.date and not _within(str(row.get(chosen.date, "")), spec):
        report.outside_dates += 1
        return None
    domain = spec.name or chosen.domain
    if chosen.tests_of is not None:
        tests = _tests(row, chosen, spec.code, report)
        if tests is None:
            return None
        starter = str(row.get(chosen.starter or "", "") or "").strip()
        text = prompt + _instruction(chosen, spec, tests, starter)
        return Example(prompt_id(prompt), text, "", domain, {"tests": tests, "problem": prompt})
    raw = _first(row, chosen.answer)
    answer = chosen.answer_of(str(raw)) if raw is not None and str(raw).strip() else None
    if not answer:
        report.without_answer += 1
        return None
    text = prompt + _instruction(chosen, spec, None, "")
    return Example(prompt_id(prompt), text, answer, domain, {"problem": prompt})


def _instruction(chosen: NamedSet, spec: TaskSpec, tests: CodeTests | None, starter: str) -> str:
    given = spec.prompt.appended if spec.prompt.appended is not None else chosen.instruction
    if given is not None:
        return given
    if tests is None:
        return MATH_INSTRUCTION
    if tests.function is None:
        return CODE_INSTRUCTION
    return FUNCTION_INSTRUCTION.format(starter=starter or f"def {tests.function}(...):")


def _tests(row: Row, chosen: NamedSet, code: CodeSettings, report: DataReport) -> CodeTests | None:
    assert chosen.tests_of is not None
    try:
        tests = chosen.tests_of(row)
    except (BadTests, RecursionError) as error:
        report.unreadable_tests += 1
        reason = str(error)[:120]
        report.reasons[reason] = report.reasons.get(reason, 0) + 1
        return None
    if tests.size_bytes > code.most_test_bytes:
        report.too_large_tests += 1
        return None
    return replace(tests, tests=tests.tests[: code.most_tests])


def _first(row: Row, names: Iterable[str]) -> Any:
    return next((value for name in names if (value := column(row, name)) is not None), None)


def _text(value: Any) -> str:
    """A prompt as text; a list of chat messages gives the text of its user turns."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        turns = [m.get("content") for m in value if isinstance(m, dict) and m.get("role", "user") == "user"]
        return "\n\n".join(turn for turn in turns if isinstance(turn, str)).strip()
    return ""


def _within(date: str, spec: TaskSpec) -> bool:
    """ISO dates compare as text; a row without a date stays only where no bound is set."""
    day = date[:10]
    if not day:
        return spec.contest_from is None and spec.contest_until is None
    return (spec.contest_from or "") <= day and (spec.contest_until is None or day <= spec.contest_until)
