"""A run's config from a YAML, TOML or JSON file: unknown fields refused, mistakes named."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from scalerl.errors import UserError
from scalerl.loop.config import RunConfig
from scalerl.recipe.custom import resolve_user_files
from scalerl.recipe.load import load_recipe, recipe_from_data
from scalerl.recipe.mapping_file import read_mapping
from scalerl.recipe.recipe import Recipe


def load_run_config(path: Path) -> RunConfig:
    """Read a run's config; its `recipe` is a name, a recipe file, or fields (`from: scalerl` for a start).

    Raises UserError that names the file, the field and the value.
    """
    return run_config_from(read_mapping(path), str(path))


def run_config_from(data: dict[str, Any], where: str) -> RunConfig:
    """Return the config of plain data; `where` names its place in errors."""
    fields = dict(data)
    recipe = fields.get("recipe")
    if isinstance(recipe, str):
        fields["recipe"] = load_recipe(recipe)
    elif isinstance(recipe, dict):
        fields["recipe"] = recipe_from_data(recipe, f"{where}: recipe")
    elif not isinstance(recipe, Recipe):
        raise UserError(f"{where}: field recipe: give a recipe's name, a file, or its fields")
    # finds and hashes files of the user's; for a run that goes on, refuses those that have changed
    fields["recipe"] = resolve_user_files(fields["recipe"], Path(where).parent)
    try:
        return RunConfig.model_validate(fields)
    except ValidationError as error:
        raise config_error(error, where, RunConfig) from None


def config_error(error: ValidationError, where: str, model: type[BaseModel]) -> UserError:
    """Return the first mistake of a config as one line: file, field, value, remedy."""
    first = error.errors()[0]
    loc = [str(part) for part in first["loc"]]
    field, value = ".".join(loc) or "(whole)", first.get("input")
    if first["type"] == "extra_forbidden":
        valid = _fields_at(model, loc[:-1])
        near = get_close_matches(loc[-1], valid, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(valid)}"
        return UserError(f"{where}: field {field}: unknown (value {value!r}): {hint}")
    if first["type"] == "missing":
        return UserError(f"{where}: field {field}: missing: give it")
    message = first["msg"].removeprefix("Value error, ")
    return UserError(f"{where}: field {field}: value {value!r}: {message[0].lower()}{message[1:]}")


def _fields_at(model: type[BaseModel], loc: list[str]) -> list[str]:
    for part in loc:
        annotation = model.model_fields[part].annotation if part in model.model_fields else None
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)
