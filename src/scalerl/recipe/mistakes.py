"""From pydantic's list of errors to one line that names file, field and value, and says what to do."""

from __future__ import annotations

import types
from difflib import get_close_matches
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from scalerl.errors import UserError
from scalerl.recipe.recipe import Recipe


def option_models(annotation: Any) -> dict[str, type[BaseModel]]:
    """Return kind -> model of a field's annotation; {"": model} for a single model, {} for anything else."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        return {model.model_fields["kind"].default: model for model in get_args(annotation)}
    return {"": annotation} if isinstance(annotation, type) and issubclass(annotation, BaseModel) else {}


def user_error(error: ValidationError, where: str) -> UserError:
    """Return the first mistake as a UserError; `where` is the file or flag that it came from."""
    first = error.errors()[0]
    path, model = _locate(first["loc"])
    field = ".".join(path) or "recipe"
    kind, value = first["type"], first.get("input")
    if kind == "extra_forbidden":
        return UserError(f"{where}: field {field}: unknown (value {value!r}): {_remedy(path, model)}")
    if kind == "missing":
        return UserError(
            f"{where}: field {field}: missing: give it, or start from a named recipe with `from: scalerl`"
        )
    if kind in ("union_tag_invalid", "union_tag_not_found", "model_attributes_type"):
        options = _options(path[0]) if path else []
        said = value.get("kind") if isinstance(value, dict) else value
        return UserError(f"{where}: field {field}.kind: {said!r}: {_nearest(str(said), options)}")
    message = first["msg"].removeprefix("Value error, ")
    return UserError(f"{where}: field {field}: value {value!r}: {message[0].lower()}{message[1:]}")


def _locate(loc: tuple[int | str, ...]) -> tuple[list[str], type[BaseModel] | None]:
    """Return the field's path without the tags of options, and the model that its last field belongs to."""
    path: list[str] = []
    model: type[BaseModel] | None = Recipe
    parent = model
    tags: dict[str, type[BaseModel]] = {}
    for item in loc:
        if item in tags:
            model, tags = tags[str(item)], {}
            continue
        parent = model
        path.append(str(item))
        field = model.model_fields.get(str(item)) if model else None
        models = option_models(field.annotation) if field else {}
        model = models.get("")
        tags = {} if "" in models else models
    return path, parent


def _options(field: str) -> list[str]:
    return list(option_models(Recipe.model_fields[field].annotation)) if field in Recipe.model_fields else []


def _nearest(name: str, valid: list[str]) -> str:
    near = get_close_matches(name, valid, n=1, cutoff=0.6)
    there_are = f"there are {', '.join(valid)}"
    return f"did you mean {near[0]!r}? ({there_are})" if near else there_are


def _remedy(path: list[str], model: type[BaseModel] | None) -> str:
    if model is None:
        return "leave it out"
    valid = list(model.model_fields)
    hint = _nearest(path[-1], valid)
    if "kind" in valid:
        owner = model.model_fields["kind"].default
        return f"{path[0]} is {owner!r} here; {hint}; another option is chosen with {path[0]}.kind"
    return hint
