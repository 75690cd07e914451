"""What differs between two recipes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scalerl.recipe.recipe import Recipe


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One difference: `field` is an axis, or `axis.parameter` where both recipes took the same option."""

    field: str
    a: Any
    b: Any

    @property
    def axis(self) -> str:
        """The recipe's field that differs."""
        return self.field.split(".")[0]


def diff(a: Recipe, b: Recipe) -> tuple[FieldDifference, ...]:
    """Return the differences in the recipe's order; plain values, fit for JSON."""
    return tuple(
        difference
        for field in Recipe.model_fields
        for difference in _differences(field, a.to_dict()[field], b.to_dict()[field])
    )


def _differences(field: str, a: Any, b: Any) -> list[FieldDifference]:
    if a == b:
        return []
    if not (isinstance(a, dict) and isinstance(b, dict) and a.get("kind") == b.get("kind")):
        return [FieldDifference(field, a, b)]
    return [FieldDifference(f"{field}.{name}", a[name], b[name]) for name in a if a[name] != b[name]]
