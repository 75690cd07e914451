"""A recipe as data: one field an axis of the recipe space plus sizes and optimizer."""

from __future__ import annotations

from scalerl.recipe.diff import FieldDifference, diff
from scalerl.recipe.load import load_recipe
from scalerl.recipe.named import NAMES, named
from scalerl.recipe.overrides import apply_overrides
from scalerl.recipe.recipe import LengthBudgets, Recipe

__all__ = [
    "NAMES",
    "FieldDifference",
    "LengthBudgets",
    "Recipe",
    "apply_overrides",
    "diff",
    "load_recipe",
    "named",
]
