"""The `scalerl` command: one file a verb, gathered here; parsing and printing only."""

from __future__ import annotations

import importlib
import sys
from typing import Annotated

import typer

import scalerl
from scalerl.errors import NoGoodAnswer, UserError

# verb -> module of scalerl.cli that holds it. A module offers either `app` (a Typer with sub-verbs) or a
# function named like the verb. Verb modules import numpy, torch and the like inside their functions, so that
# --help is quick.
VERBS: dict[str, str] = {
    "eval": "eval",
    "fetch-model": "fetch_model",
    "fit": "fit",
    "forecast": "forecast",
    "backtest": "backtest",
    "compare": "compare",
    "convert": "convert",
    "plan-eval": "plan_eval",
    "bench": "bench",
    "recipes": "recipes",
    "report": "report",
    "resume": "resume",
    "sft": "sft",
    "simulate": "simulate",
    "study": "study",
    "train": "train",
    "watch": "watch",
}

app = typer.Typer(
    name="scalerl",
    help="Fit, forecast and compare the scaling curves of RL runs; train; study.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"scalerl {scalerl.__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Fit, forecast and compare the scaling curves of RL runs; train; study."""


def _gather() -> None:
    for verb, module_name in VERBS.items():
        module = importlib.import_module(f"scalerl.cli.{module_name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=verb)
        else:
            app.command(name=verb)(getattr(module, verb.replace("-", "_")))


def main() -> None:
    """Entry point: user mistakes become one line on stderr and status 2, never a traceback."""
    _gather()
    try:
        status = app(standalone_mode=False)
    except UserError as error:
        print(f"scalerl: {error}", file=sys.stderr)
        sys.exit(2)
    except NoGoodAnswer as answer:
        print(f"scalerl: {answer}", file=sys.stderr)
        sys.exit(1)
    except (typer.Abort, KeyboardInterrupt, BrokenPipeError):
        sys.exit(130)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        if (
            message := error.format_message()
        ):  # a usage error of the command-line parser; empty after bare --help
            print(f"scalerl: {message}", file=sys.stderr)
        sys.exit(2)
    sys.exit(status if isinstance(status, int) else 0)
