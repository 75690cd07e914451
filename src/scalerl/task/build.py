"""From a task's specification to the task and its prompter."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scalerl.errors import UserError
from scalerl.task.arithmetic import arithmetic_task
from scalerl.task.protocol import Prompter, Task
from scalerl.task.tokenizer import SymbolTokenizer


def build_task(spec: Mapping[str, Any]) -> Task:
    """Return the task that `spec` describes: `{"kind": "arithmetic", "train_prompts": 2048, ...}`."""
    fields = dict(spec)
    kind = fields.pop("kind", None)
    if kind != "arithmetic":
        raise UserError(f"task.kind: unknown value {kind!r}; known: 'arithmetic'")
    known = inspect.signature(arithmetic_task).parameters
    if unknown := sorted(set(fields) - set(known)):
        raise UserError(f"task.{unknown[0]}: unknown field; an arithmetic task has {', '.join(known)}")
    return arithmetic_task(**fields)


def build_prompter(spec: Mapping[str, Any], model_folder: Path) -> Prompter:
    """Return the prompter for a task and a model folder's tokenizer."""
    return SymbolTokenizer.load(model_folder)
