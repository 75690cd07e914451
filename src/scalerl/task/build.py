"""From a spec to a task: the one place that knows all kinds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalerl.errors import UserError
from scalerl.task.arithmetic import arithmetic_task
from scalerl.task.bare_process import BareProcess
from scalerl.task.catalogue import named_set
from scalerl.task.code_verifier import CodeVerifier
from scalerl.task.contamination import ContaminationReport, find_contamination
from scalerl.task.custom_reward import CustomRewardVerifier
from scalerl.task.dataset import load_set
from scalerl.task.environment import environment_task
from scalerl.task.fusion import FusionRunner
from scalerl.task.math_verifier import MathVerifier
from scalerl.task.mixture import MixedPart, mix
from scalerl.task.procedural import ProceduralVerifier, procedural_examples
from scalerl.task.prompter import ChatPrompter
from scalerl.task.protocol import Example, Prompter, Task, Verifier
from scalerl.task.reward import Reward
from scalerl.task.sandbox import BubblewrapSandbox
from scalerl.task.sandbox_command import Limits
from scalerl.task.spec import PromptStyle, TaskSpec, parse_spec
from scalerl.task.split import split_held_out
from scalerl.task.tokenizer import SymbolTokenizer
from scalerl.task.watchdog import ProgramRunner

log = logging.getLogger("scalerl.task")

SpecLike = TaskSpec | Mapping[str, Any] | str
_HELD_OUT, _HELD_OUT_PROCEDURAL, _TRAIN_PROCEDURAL = 1000, 200, 2000


def build_task(spec: SpecLike) -> Task:
    """Build what a spec describes (`parse_spec` says in which forms); raises UserError."""
    given = parse_spec(spec)
    return _BUILDERS[given.kind](given)


def build_prompter(spec: SpecLike, model_folder: str | Path) -> Prompter:
    """The prompter of a task for the model in a folder. The arithmetic task has symbols of its own, not
    words.
    """
    given = parse_spec(spec)
    if given.kind == "arithmetic":
        return SymbolTokenizer.load(Path(model_folder))
    return ChatPrompter.load(model_folder, given.prompt)


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """A set to evaluate on, with its verifier."""

    name: str
    spec: TaskSpec
    examples: tuple[Example, ...]
    verifier: Verifier


def build_evaluation_set(spec: SpecLike) -> EvaluationSet:
    """All examples of a data set or file; the held-out part of a procedural or mixed task."""
    given = parse_spec(spec)
    if given.kind in ("dataset", "math_file", "code_file"):
        loaded = load_set(given)
        name = given.name or (Path(given.path).stem if given.path else given.kind)
        return EvaluationSet(name, given, loaded.examples, build_verifier(given))
    task = build_task(given)
    return EvaluationSet(task.name, given, task.held_out, task.verifier)


def build_verifier(spec: TaskSpec) -> Verifier:
    """The verifier of a spec that has one domain."""
    if spec.reward_function is not None:
        return CustomRewardVerifier(spec.reward_function, limit_seconds=spec.verifier_seconds)
    reward = Reward(spec.correct_reward, spec.wrong_reward)
    must_close = spec.prompt.thinking == "open"
    if spec.kind == "reasoning_gym":
        assert spec.name is not None
        return ProceduralVerifier(
            spec.name,
            spec.options,
            reward=reward,
            limit_seconds=spec.verifier_seconds,
            must_close_thinking=must_close,
        )
    if spec.kind == "code_file" or (spec.kind == "dataset" and named_set(spec.name or "").domain == "code"):
        limits = Limits(
            cpu_seconds=spec.code.cpu_seconds,
            wall_seconds=spec.code.wall_seconds,
            memory_bytes=spec.code.memory_mib << 20,
        )
        return CodeVerifier(
            _runner(spec),
            reward=reward,
            limits=limits,
            workers=spec.code.workers,
            must_close_thinking=must_close,
        )
    return MathVerifier(reward=reward, limit_seconds=spec.verifier_seconds, must_close_thinking=must_close)


def _runner(spec: TaskSpec) -> ProgramRunner:
    if spec.code.fusion_url is not None:
        return FusionRunner(spec.code.fusion_url)
    return BareProcess() if spec.code.unsafe_no_sandbox else BubblewrapSandbox()


def contamination_report(
    spec: TaskSpec, examples: tuple[Example, ...], *, n: int = 13
) -> ContaminationReport:
    """Compare examples with the data sets that `spec.decontaminate_against` names (or `NAME:FILE`)."""
    benchmarks = {name: load_set(parse_spec(name)).examples for name in spec.decontaminate_against}
    return find_contamination(examples, benchmarks, n=n)


def _from_rows(spec: TaskSpec) -> Task:
    loaded = load_set(spec)
    held_out_prompts = _HELD_OUT if spec.held_out_prompts is None else spec.held_out_prompts
    examples = loaded.examples
    if spec.decontaminate_against:
        report = contamination_report(spec, examples)
        for line in report.lines():
            log.info(line)
        loaded.report.contaminated = len(report.train_ids)
        examples = tuple(example for example in examples if example.id not in report.train_ids)
    train, held_out = split_held_out(examples, held_out_prompts, seed=spec.seed, source=loaded.source)
    name = spec.name or Path(loaded.source).stem
    return Task(name, train[: spec.train_prompts], held_out, build_verifier(spec))


def _procedural(spec: TaskSpec) -> Task:
    assert spec.name is not None
    held_out_prompts = _HELD_OUT_PROCEDURAL if spec.held_out_prompts is None else spec.held_out_prompts
    count = held_out_prompts + (spec.train_prompts or _TRAIN_PROCEDURAL)
    examples = procedural_examples(
        spec.name, count, spec.options, seed=spec.seed, instruction=spec.prompt.appended
    )
    if len(examples) < count:
        log.info("%s: %d distinct prompts of %d drawn", spec.name, len(examples), count)
    train, held_out = split_held_out(examples, held_out_prompts, seed=spec.seed, source=f"task {spec.name}")
    return Task(spec.name, train, held_out, build_verifier(spec))


def _arithmetic(spec: TaskSpec) -> Task:
    sizes = {"train_prompts": spec.train_prompts, "held_out_prompts": spec.held_out_prompts}
    settings = {key: value for key, value in sizes.items() if value is not None} | spec.options
    try:
        return arithmetic_task(seed=spec.seed, **settings)
    except TypeError as error:
        raise UserError(f"task: options of arithmetic: {error}") from None


def _mixture(spec: TaskSpec) -> Task:
    """One prompter serves all parts, so whether the prompt opens the thinking is the mixture's to say."""
    parts = [
        MixedPart(
            part.domain or part.task.name or part.task.kind.removesuffix("_file"),
            build_task(part.task.model_copy(update={"prompt": _opened_alike(part.task, spec)})),
            part.weight,
        )
        for part in spec.parts
    ]
    return mix(parts, name=spec.name or "mixture", seed=spec.seed)


def _opened_alike(part: TaskSpec, whole: TaskSpec) -> PromptStyle:
    return part.prompt.model_copy(update={"thinking": whole.prompt.thinking})


_BUILDERS: Mapping[str, Callable[[TaskSpec], Task]] = {
    "arithmetic": _arithmetic,
    "math_file": _from_rows,
    "code_file": _from_rows,
    "dataset": _from_rows,
    "reasoning_gym": _procedural,
    "environment": environment_task,
    "mixture": _mixture,
}
