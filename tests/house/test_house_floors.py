"""The layout is the architecture: imports go down the floors only, and the curve half needs no torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "scalerl"
FLOORS = {
    "curve": 0,
    "record": 1,
    "recipe": 2,
    "objective": 3,
    "task": 3,
    "policy": 3,
    "generate": 3,
    "loop": 4,
    "study": 5,
    "cli": 6,
}
HEAVY = ("torch", "transformers", "vllm", "ray")


def imports(path: Path) -> set[str]:
    """Modules that a file imports anywhere, functions and type checking included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
    return found


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "scalerl" and len(parts) > 1 and parts[1] in FLOORS else None


FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_down_only(path):
    floor = FLOORS[path.relative_to(SOURCE).parts[0]]
    higher = {m for m in imports(path) if (room := room_of(m)) and FLOORS[room] > floor}
    assert not higher


@pytest.mark.parametrize("room", ["curve", "record", "recipe"])
def test_the_curve_half_never_imports_torch(room):
    for path in (SOURCE / room).rglob("*.py"):
        heavy = {m for m in imports(path) if m.split(".")[0] in HEAVY}
        allowed = {"transformers"} if path.name == "live_trl.py" else set()
        assert heavy <= allowed, path


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_fit_works_where_torch_is_not_installed():
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('torch', 'transformers', 'vllm', 'ray'): raise ImportError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import numpy as np, scalerl\n"
        "c = np.linspace(100, 5000, 40)\n"
        "r = 0.2 + 0.5 / (1 + (800 / c) ** 1.7)\n"
        "print(round(scalerl.fit(compute=c, pass_rate=r, r0=0.2).A, 3))\n"
    )
    assert run_python(code).strip() == "0.7"


def test_the_command_line_starts_without_heavy_imports():
    code = (
        "import sys\n"
        "from scalerl.cli.main import _gather\n"
        "_gather()\n"
        "print(sorted({'torch', 'transformers', 'scipy', 'matplotlib', 'pandas'} & set(sys.modules)))\n"
    )
    assert run_python(code).strip() == "[]"


def test_no_file_outgrows_its_idea():
    long = {str(p.relative_to(SOURCE)): n for p in FILES if (n := len(p.read_text().splitlines())) > 400}
    assert not long
