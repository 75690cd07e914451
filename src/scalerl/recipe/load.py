"""Recipes from YAML or TOML files, or by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scalerl.recipe.custom import resolve_user_files
from scalerl.recipe.mapping_file import read_mapping
from scalerl.recipe.mistakes import user_error
from scalerl.recipe.named import named
from scalerl.recipe.overrides import apply_overrides
from scalerl.recipe.recipe import OPTION_FIELDS, Recipe, expand_short_forms

_SUFFIXES = (".yaml", ".yml", ".toml", ".json")


def load_recipe(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Return a named recipe or one read from a YAML, TOML or JSON file, with `path=value` overrides applied.

    A file gives every axis, or starts from a named recipe (`from: scalerl`) and gives what differs. Files
    of the user's functions are looked up beside the recipe's file (in an override: in the working
    directory), their paths made absolute and their contents hashed. Raises UserError.
    """
    path = Path(name_or_path)
    if path.suffix in _SUFFIXES or path.is_file():
        recipe = resolve_user_files(_read(path), path.resolve().parent)
    else:
        recipe = named(str(name_or_path))
    return resolve_user_files(apply_overrides(recipe, overrides), Path.cwd())


def _read(path: Path) -> Recipe:
    return recipe_from_data(read_mapping(path), str(path))


def recipe_from_data(data: dict[str, Any], where: str) -> Recipe:
    """Return the recipe of plain data, as a file holds it; `where` names its place in errors (UserError)."""
    data = expand_short_forms(data)
    start = data.pop("from", None)
    if start is not None:
        data = _merge(named(str(start)).model_dump(), data)
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        raise user_error(error, where) from None


def _merge(start: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes over the start; a change of option drops the old option's parameters."""
    merged = dict(start)
    for field, value in changes.items():
        old = start.get(field)
        changes_option = (
            field in OPTION_FIELDS
            and isinstance(old, dict)
            and isinstance(value, dict)
            and value.get("kind", old["kind"]) != old["kind"]
        )
        mergeable = isinstance(old, dict) and isinstance(value, dict) and not changes_option
        merged[field] = {**old, **value} if mergeable else value  # type: ignore[dict-item]
    return merged
