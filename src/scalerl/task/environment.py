"""Single-turn tasksets of the package `verifiers` (0.4, its `verifiers.v1`) as tasks, where it is
installed.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import orjson

from scalerl.errors import UserError
from scalerl.task.answer import after_thinking, strip_end_marks
from scalerl.task.pool import KillablePool
from scalerl.task.protocol import Example, Judgement, Task
from scalerl.task.spec import TaskSpec
from scalerl.task.split import prompt_id, split_held_out

_THIS = "scalerl.task.environment"
_HELD_OUT = 200


@lru_cache(maxsize=8)
def _tasks(name: str, options: bytes, most: int | None) -> tuple[Any, ...]:
    """The taskset's tasks, in its own order."""
    from verifiers.v1.utils.loaders import taskset_class, taskset_config_type

    config = taskset_config_type(name)(id=name, **orjson.loads(options))
    taskset = taskset_class(name)(config)
    if most is None and not taskset.bounded:
        raise UserError(f"task: environment {name!r} is endless: set train_prompts and held_out_prompts")
    return tuple(taskset if most is None else taskset.take(most))


def score(name: str, options: bytes, most: int | None, index: int, text: str) -> float:
    """Score a completion by the task's own rewards (in a pool worker): their weighted sum."""
    from verifiers.v1 import Task as EnvironmentTask
    from verifiers.v1 import Trace, TraceTask
    from verifiers.v1.graph import MessageNode
    from verifiers.v1.trace import AgentInfo
    from verifiers.v1.types import AssistantMessage, UserMessage

    task: EnvironmentTask[Any, Any, Any] = _tasks(name, options, most)[index]
    nodes = [
        MessageNode(message=UserMessage(content=task.data.prompt_text)),
        MessageNode(parent=0, message=AssistantMessage(content=text), sampled=True),
    ]
    trace: Any = Trace(
        task=TraceTask(type=type(task).__name__, data=task.data),
        agent=AgentInfo.model_construct(config=None, runtime=None, name="agent", trainable=True),
        nodes=nodes,
        is_completed=True,
        ok=True,
    )
    asyncio.run(task.score(trace))
    return float(trace.reward)


class EnvironmentVerifier:
    """Rewards of an environment, scored after the thinking; a reward of 1 or more is a pass, and becomes
    +1, else -1.
    """

    def __init__(self, spec: TaskSpec, most: int | None) -> None:
        self.name = spec.name or ""
        self.options = orjson.dumps(spec.options)
        self.most = most
        self.must_close_thinking = spec.prompt.thinking == "open"
        self.rewards = spec.correct_reward, spec.wrong_reward
        self.pool = KillablePool(limit_seconds=spec.verifier_seconds, preload=(_THIS, "verifiers.v1"))

    def __call__(self, examples: Sequence[Example], completions: Sequence[str]) -> list[Judgement | None]:
        """Ask the environment about each completion; a scorer that fails or hangs gives None."""
        judgements: list[Judgement | None] = [Judgement(False, self.rewards[1])] * len(examples)
        jobs, indices = [], []
        for index, (example, completion) in enumerate(zip(examples, completions, strict=True)):
            text = after_thinking(strip_end_marks(completion), must_close=self.must_close_thinking)
            if text is not None:
                arguments = (self.name, self.options, self.most, example.payload["index"], text.strip())
                jobs.append((f"{_THIS}:score", arguments))
                indices.append(index)
        for index, outcome in zip(indices, self.pool.map(jobs), strict=True):
            passed = outcome.value is not None and outcome.value >= 1.0
            judgements[index] = (
                None if outcome.value is None else Judgement(passed, self.rewards[0 if passed else 1])
            )
        return judgements


def environment_task(spec: TaskSpec) -> Task:
    """Build a task from an installed taskset; raises UserError."""
    if importlib.util.find_spec("verifiers") is None:
        raise UserError(
            f"task: environment {spec.name!r} needs the package verifiers: pip install 'scalerl[environment]'"
        )
    held_out_prompts = _HELD_OUT if spec.held_out_prompts is None else spec.held_out_prompts
    most = None if spec.train_prompts is None else spec.train_prompts + held_out_prompts
    assert spec.name is not None
    try:
        tasks = _tasks(spec.name, orjson.dumps(spec.options), most)
    except (ImportError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"task: environment {spec.name!r}: {str(error).splitlines()[0]}") from None
    found: dict[str, Example] = {}
    for index, task in enumerate(tasks):
        prompt = task.data.prompt_text
        if task.data.system_prompt:
            prompt = f"{task.data.system_prompt}\n\n{prompt}"
        example = Example(prompt_id(prompt), prompt, "", spec.name, {"index": index, "problem": prompt})
        found.setdefault(example.id, example)
    train, held_out = split_held_out(
        tuple(found.values()), held_out_prompts, seed=spec.seed, source=f"task {spec.name}"
    )
    return Task(spec.name, train, held_out, EnvironmentVerifier(spec, most))
