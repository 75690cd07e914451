"""`--set loss.eps_max=8`: changes to a recipe by dotted path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml
from pydantic import ValidationError

from scalerl.errors import UserError
from scalerl.recipe.mistakes import user_error
from scalerl.recipe.recipe import OPTION_FIELDS, Recipe, expand_short_forms


def apply_overrides(recipe: Recipe, overrides: Sequence[str]) -> Recipe:
    """Return the recipe with `path=value` changes applied; values are read as YAML.

    `loss=gspo`, `loss.kind=gspo` and `loss=mine.py:my_loss` choose another option with its own defaults
    (parameters of the old one go); they are applied before the parameters, whatever the order. Raises
    UserError.
    """
    data = recipe.model_dump()
    changes = [_parse(text) for text in overrides]
    for path, value, text in sorted(changes, key=lambda change: not _chooses_option(change[0])):
        _set(data, path, value, text)
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        raise user_error(error, "--set") from None


def _parse(text: str) -> tuple[list[str], Any, str]:
    name, equals, value = text.partition("=")
    path = name.strip().split(".")
    if not equals or not all(path):
        raise UserError(f"--set {text!r}: write it as field=value, e.g. --set loss.eps_max=8")
    try:
        return path, yaml.safe_load(value), text
    except yaml.YAMLError:
        raise UserError(f"--set {text!r}: the value isn't readable as YAML") from None


def _chooses_option(path: list[str]) -> bool:
    return path[0] in OPTION_FIELDS and (len(path) == 1 or path[1:] == ["kind"])


def _set(data: dict[str, Any], path: list[str], value: Any, text: str) -> None:
    """Put the value at the path; what is unknown is left for validation to name."""
    if _chooses_option(path):
        field = path[0]
        option = expand_short_forms({field: {"kind": value} if len(path) == 2 else value})[field]
        same = isinstance(option, dict) and option.get("kind", data[field]["kind"]) == data[field]["kind"]
        data[field] = {**data[field], **option} if same else option
        return
    target = data
    for name in path[:-1]:
        if not isinstance(target.get(name), dict):
            raise UserError(f"--set {text!r}: {name!r} has no fields below it; there are {', '.join(target)}")
        target = target[name]
    old = target.get(path[-1])
    target[path[-1]] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
