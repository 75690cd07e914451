"""No code branches on a recipe's name: the names occur in recipe/named.py only."""

import ast
from pathlib import Path

import scalerl
from scalerl.recipe import NAMES

ALLOWED = {"recipe/named.py"}
# words that are also something else: the package, an option of the loss axis
ELSEWHERE = {"scalerl", "base", "gspo"}


def compared_strings(tree):
    """Strings that code compares something called a recipe with, or matches on."""
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


def test_names_occur_only_where_they_are_defined():
    root = Path(scalerl.__file__).parent
    found = []
    for file in sorted(root.rglob("*.py")):
        where = file.relative_to(root).as_posix()
        tree = ast.parse(file.read_text())
        docstrings = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        literals = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
        ]
        if where not in ALLOWED:
            found += [(where, text) for text in literals if text in set(NAMES) - ELSEWHERE]
            found += [(where, text) for text in compared_strings(tree) if text in NAMES]
    assert found == []


def test_the_search_would_find_a_branch():
    tree = ast.parse("if name == 'scalerl': pass\nmatch name:\n    case 'dr_grpo': pass\n")
    assert set(compared_strings(tree)) == {"scalerl", "dr_grpo"}
