"""No code branches on a recipe's name: none is compared with or matched on (as data it may be anywhere)."""

import ast
from pathlib import Path

import scalerl
from scalerl.recipe import NAMES


def compared_strings(tree):
    """Strings that code compares something called a recipe, an arm or a name with, or matches on."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            if not any(word in ast.unparse(node).lower() for word in ("recipe", "arm", "name")):
                continue
        elif isinstance(node, ast.MatchValue):
            operands = [node.value]
        else:
            continue
        for operand in operands:
            for leaf in ast.walk(operand):
                if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
                    yield leaf.value


def test_no_module_branches_on_a_recipes_name():
    root = Path(scalerl.__file__).parent
    found = [
        (file.relative_to(root).as_posix(), text)
        for file in sorted(root.rglob("*.py"))
        for text in compared_strings(ast.parse(file.read_text()))
        if text in NAMES
    ]
    assert found == []


def test_the_search_would_find_a_branch():
    tree = ast.parse(
        "if name == 'scalerl': pass\n"
        "if recipe_name in ('gspo', 'base'): pass\n"
        "match x:\n    case 'dr_grpo': pass\n"
    )
    assert set(compared_strings(tree)) == {"scalerl", "gspo", "base", "dr_grpo"}
