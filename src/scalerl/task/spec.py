"""A task as data: what a config file or a command line says, checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scalerl.errors import UserError

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Kind = Literal["arithmetic", "math_file", "code_file", "dataset", "reasoning_gym", "environment", "mixture"]


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class PromptStyle(_Spec):
    """How an example becomes the model's prompt."""

    system: str | None = None
    """System prompt; none by default."""
    instruction: str | None = None
    """Appended to every problem after a blank line; the domain's usual one by default, nothing for ''."""
    thinking: Literal["auto", "open", "off"] = "auto"
    """`open`: the prompt ends with `<think>` and an answer counts only after `</think>`. `auto`: opened for
    tokenizers
    that have the tokens `<think>` and `</think>`. `off`: never opened."""
    chat: bool = True
    """Use the tokenizer's chat template where it has one; off: plain text."""

    @property
    def appended(self) -> str | None:
        """The instruction as it follows a problem; its own leading white space, if any, stays as it is."""
        words = self.instruction
        return words if not words or words[0].isspace() else f"\n\n{words}"


class ColumnNames(_Spec):
    """Where a row keeps what; dots reach into nested values (`reward_model.ground_truth`)."""

    prompt: str = "prompt"
    answer: str | None = "answer"
    tests: str | None = None
    id: str | None = None


class CodeSettings(_Spec):
    """How model-written programs are run."""

    unsafe_no_sandbox: bool = False
    """Run programs without bubblewrap: they can do whatever you can."""
    fusion_url: str | None = None
    """Address of a SandboxFusion server that runs the programs instead."""
    cpu_seconds: Positive = 6.0
    """CPU time of one test, over all its processes."""
    wall_seconds: Positive = 24.0
    """Wall time of one test; generous, so that a busy machine makes no answer wrong."""
    memory_mib: Count = 1024
    """Memory of one test, over all its processes."""
    workers: Count | None = None
    """Programs run at a time; the machine's cores by default."""
    most_tests: Count = 64
    """A problem keeps its first tests up to this number."""
    most_test_bytes: Count = 16 << 20
    """A problem whose tests are larger is left out (and counted)."""


class Part(_Spec):
    """One task of a mixture."""

    task: TaskSpec
    weight: Positive = 1.0
    """Share of the training prompts, relative to the other parts' weights."""
    domain: Annotated[str, Field(min_length=1)] | None = None
    """What the part is called in results, its evaluation set included; the task's name by default."""


class TaskSpec(_Spec):
    """What to train or evaluate on."""

    kind: Kind
    """`dataset`: a known data set by `name`; `math_file`, `code_file`: rows of your own at `path`."""
    name: str | None = None
    """The data set, reasoning-gym task or environment; for files, the domain's name in results."""
    path: str | None = None
    """A .jsonl, .json or .parquet file, or a folder of them; for `dataset`, instead of the hub."""
    subset: str | None = None
    """The data set's configuration on the hub."""
    split: str | None = None
    """The data set's split on the hub."""
    columns: ColumnNames | None = None
    """Column names of your own rows, or to override a data set's."""
    held_out_prompts: Annotated[int, Field(ge=0)] | None = None
    """Prompts held out for evaluation; 1,000 by default (arithmetic: 512; reasoning_gym: 200)."""
    train_prompts: Count | None = None
    """At most so many training prompts; procedural tasks draw as many (2,000 by default)."""
    seed: int = 0
    """Names the data: the split and procedural draws, not the run."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Settings of the reasoning-gym task, the environment or the arithmetic task."""
    parts: tuple[Part, ...] = ()
    """The tasks of a mixture."""
    decontaminate_against: tuple[str, ...] = ()
    """Data sets whose prompts must not be in the training set: overlapping prompts are left out."""
    contest_from: str | None = None
    """LiveCodeBench: first contest date (YYYY-MM-DD)."""
    contest_until: str | None = None
    """LiveCodeBench: last contest date."""
    correct_reward: float = 1.0
    wrong_reward: float = -1.0
    reward_function: str | None = None
    """`file.py:function`, called as function(completion, example) -> reward, instead of the verifier; above
    0: passed."""
    verifier_seconds: Positive = 5.0
    """Hard limit for one symbolic comparison, score or reward function."""
    code: CodeSettings = CodeSettings()
    prompt: PromptStyle = PromptStyle()

    @model_validator(mode="after")
    def _complete(self) -> TaskSpec:
        needed = {
            "math_file": ("path",), "code_file": ("path",), "dataset": ("name",), "reasoning_gym": ("name",),
            "environment": ("name",), "mixture": ("parts",), "arithmetic": (),
        }[self.kind]  # fmt: skip
        for field in needed:
            if not getattr(self, field):
                raise ValueError(f"kind {self.kind} needs the field {field!r}")
        if self.parts and self.kind != "mixture":
            raise ValueError(f"parts are for kind mixture, not {self.kind}")
        if any(part.task.kind == "mixture" for part in self.parts):
            raise ValueError("a mixture can't be part of a mixture: list its parts")
        return self


def parse_spec(given: TaskSpec | Mapping[str, Any] | str) -> TaskSpec:
    """A spec from itself, a mapping (YAML), the name of a YAML file, or a short string; raises UserError.

    Short strings: `arithmetic`, `gsm8k`, `gsm8k:rows.parquet`, `math:rows.jsonl`, `code:rows.jsonl`,
    `reasoning_gym:chain_sum`, `environment:NAME`; then `,field=value`, where an unknown field is one of
    `options`.
    """
    if isinstance(given, TaskSpec):
        return given
    if isinstance(given, str):
        given = _from_yaml(given) if given.endswith((".yaml", ".yml")) else _from_string(given)
    try:
        return TaskSpec.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "task"
        raise UserError(f"task: {where}: {first['msg']} (got {str(first['input'])[:80]!r})") from None


def _from_yaml(path: str) -> Mapping[str, Any]:
    try:
        loaded = yaml.safe_load(Path(path).read_text())
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: can't read the task: {str(error).splitlines()[0]}") from None
    if not isinstance(loaded, Mapping):
        raise UserError(f"{path}: the task must be a mapping such as 'kind: arithmetic'")
    return loaded


_SHORT_KINDS: dict[str, tuple[Kind, str]] = {
    "math": ("math_file", "path"),
    "code": ("code_file", "path"),
    "reasoning_gym": ("reasoning_gym", "name"),
    "environment": ("environment", "name"),
}


def _from_string(text: str) -> dict[str, Any]:
    head, *settings = text.split(",")
    word, _, rest = head.partition(":")
    spec: dict[str, Any]
    if word == "arithmetic":
        spec = {"kind": "arithmetic"}
    elif word in _SHORT_KINDS:
        kind, field = _SHORT_KINDS[word]
        spec = {"kind": kind, field: rest or None}
    else:
        spec = {"kind": "dataset", "name": word, "path": rest or None}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise UserError(f"task {text!r}: {setting!r} isn't field=value")
        owner = spec if key in TaskSpec.model_fields else spec.setdefault("options", {})
        owner[key] = yaml.safe_load(value)
    return spec
