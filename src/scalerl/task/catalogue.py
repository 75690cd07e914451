"""The data sets known by name: where they are, and which columns hold what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from scalerl.errors import UserError
from scalerl.task.answer import last_boxed
from scalerl.task.code_tests import CodeTests, livecodebench_tests, parse_tests
from scalerl.task.rows import Row
from scalerl.task.spec import ColumnNames

Domain = Literal["math", "code"]


@dataclass(frozen=True, slots=True)
class NamedSet:
    """One data set. `prompt` and `answer` list column names: the first that a row has is taken, since the
    same set goes
    by several forms. `instruction`: None for the domain's usual one.
    """

    hub_id: str
    domain: Domain
    subset: str | None = None
    split: str = "train"
    prompt: tuple[str, ...] = ("problem", "Problem", "question")
    answer: tuple[str, ...] = ("answer", "Answer")
    answer_of: Callable[[str], str | None] = str.strip
    tests_of: Callable[[Row], CodeTests] | None = None
    starter: str | None = None
    instruction: str | None = None
    date: str | None = None


def _after_hashes(answer: str) -> str | None:
    """GSM8K: the text after `####`."""
    return answer.rpartition("####")[2].strip() if "####" in answer else None


def _boxed_or_plain(answer: str) -> str | None:
    """The boxed answer of a worked solution, else the text itself where it is short enough to be one."""
    return last_boxed(answer) or (answer.strip() if len(answer) < 100 else None)


def _tests_column(row: Row) -> CodeTests:
    return parse_tests(row.get("tests"), row.get("metadata"))


def _livecodebench(row: Row) -> CodeTests:
    return livecodebench_tests(
        row.get("public_test_cases", ""), row.get("private_test_cases", ""), row.get("metadata")
    )


def _deepcoder(subset: str, split: str = "train") -> NamedSet:
    return NamedSet(
        "agentica-org/DeepCoder-Preview-Dataset", "code", subset, split,
        tests_of=_tests_column, starter="starter_code",
    )  # fmt: skip


NAMED: Mapping[str, NamedSet] = {
    "polaris": NamedSet("POLARIS-Project/Polaris-Dataset-53K", "math"),
    "deepscaler": NamedSet("agentica-org/DeepScaleR-Preview-Dataset", "math"),
    # Its prompts say themselves how to answer ("Answer: ..." on the last line).
    "dapo17k": NamedSet(
        "BytedTsinghua-SIA/DAPO-Math-17k", "math",
        prompt=("prompt",), answer=("reward_model.ground_truth",), instruction="",
    ),
    "deepcoder": _deepcoder("primeintellect"),
    "deepcoder-taco": _deepcoder("taco"),
    "deepcoder-lcbv5": _deepcoder("lcbv5"),
    "deepcoder-codeforces": _deepcoder("codeforces", "test"),
    "aime24": NamedSet(
        "HuggingFaceH4/aime_2024", "math",
        answer=("answer", "Answer", "solution", "Solution"), answer_of=_boxed_or_plain,
    ),
    "aime25": NamedSet("math-ai/aime25", "math", split="test"),
    "math500": NamedSet("HuggingFaceH4/MATH-500", "math", split="test"),
    "gsm8k": NamedSet("openai/gsm8k", "math", "main", answer_of=_after_hashes),
    "gsm8k-test": NamedSet("openai/gsm8k", "math", "main", "test", answer_of=_after_hashes),
    "livecodebench": NamedSet(
        "livecodebench/code_generation_lite", "code", split="test", prompt=("question_content",),
        tests_of=_livecodebench, starter="starter_code", date="contest_date",
    ),
}  # fmt: skip


def named_set(name: str) -> NamedSet:
    """The set of that name; raises UserError listing the names."""
    if name not in NAMED:
        raise UserError(
            f"task {name!r} is unknown; data sets: {', '.join(NAMED)}; also arithmetic, math:FILE, "
            "code:FILE, reasoning_gym:NAME, environment:NAME"
        )
    return NAMED[name]


def own_set(domain: Domain, columns: ColumnNames) -> NamedSet:
    """A set of the user's own rows, by mapping."""
    tests = columns.tests or ("tests" if domain == "code" else None)
    return NamedSet(
        hub_id="",
        domain=domain,
        prompt=(columns.prompt,),
        answer=(columns.answer,) if columns.answer and tests is None else (),
        tests_of=None
        if tests is None
        else (lambda row: parse_tests(column(row, tests), row.get("metadata"))),
        starter="starter_code",
    )


def column(row: Row, path: str) -> Any:
    """The value at a dotted path, or None."""
    value: Any = row
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value
