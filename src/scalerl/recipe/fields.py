"""Every field of a recipe with its meaning, read off the models: what `scalerl recipes fields` prints."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import getdoc
from typing import Any

from pydantic import BaseModel

from scalerl.recipe.mistakes import option_models
from scalerl.recipe.recipe import Recipe


@dataclass(frozen=True, slots=True)
class FieldMeaning:
    """One field: `option` is the kind of option that has it, '' where there are no kinds."""

    path: str
    option: str
    default: Any
    description: str


def fields() -> list[FieldMeaning]:
    """Return an entry for each axis, each of its options and each parameter, in the recipe's order."""
    found = []
    for axis, field in Recipe.model_fields.items():
        found.append(FieldMeaning(axis, "", "", _one_line(field.description)))
        for kind, model in option_models(field.annotation).items():
            if kind:
                found.append(FieldMeaning(axis, kind, "", _one_line(getdoc(model))))
            found += _parameters(axis, kind, model)
    return found


def _parameters(axis: str, kind: str, model: type[BaseModel]) -> list[FieldMeaning]:
    return [
        FieldMeaning(
            f"{axis}.{name}",
            kind,
            "required" if field.is_required() else field.default,
            _one_line(field.description),
        )
        for name, field in model.model_fields.items()
        if name != "kind"
    ]


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())
