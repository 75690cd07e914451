"""`scalerl bench`: measurements that print their own tables; one module a subject, gathered by a table like
the verbs."""

from __future__ import annotations

import importlib

import typer

# subject -> module of scalerl.cli with a function named like the subject
SUBJECTS: dict[str, str] = {
    "curve": "bench_curve",
    "calibrate": "bench_calibrate",
    "clock": "bench_clock",
    "generate": "bench_generate",
    "head": "bench_head",
    "readers": "bench_readers",
    "step": "bench_step",
    "verify": "bench_verify",
}

app = typer.Typer(help="Measure: each subject prints its table.", no_args_is_help=True)


def _gather() -> None:
    for subject, module_name in SUBJECTS.items():
        module = importlib.import_module(f"scalerl.cli.{module_name}")
        app.command(name=subject)(getattr(module, subject.replace("-", "_")))


_gather()
