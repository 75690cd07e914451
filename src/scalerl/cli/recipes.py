"""`scalerl recipes`: list, show and compare recipes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

JSON_HELP = "Print JSON with stable keys."
SET_HELP = "Change a field: loss.eps_max=8, loss=gspo. May be repeated."

app = typer.Typer(help="List, show and compare recipes.", pretty_exceptions_enable=False)

JsonFlag = Annotated[bool, typer.Option("--json", help=JSON_HELP)]


@app.callback(invoke_without_command=True)
def recipes(context: typer.Context, json: JsonFlag = False) -> None:
    """List the named recipes; `show` and `diff` look closer.

    Example: scalerl recipes
    """
    if context.invoked_subcommand is not None:
        return
    from scalerl.recipe import NAMES, named
    from scalerl.recipe.named import describe

    if json:
        _print_json({name: {"about": describe(name), "recipe": named(name).to_dict()} for name in NAMES})
        return
    columns = ["recipe", "schedule", "loss", "aggregation", "advantage", "head", "batch", "curriculum"]
    rows = []
    for name in NAMES:
        recipe = named(name).to_dict()
        axes = [_short(recipe[axis]) for axis in columns[1:]]
        sizes = recipe["sizes"]
        rows.append([name, *axes, f"{sizes['prompts_per_step']} x {sizes['generations_per_prompt']}"])
    _print_table([*columns, "prompts x generations"], rows)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A recipe's name, or a YAML or TOML file.")],
    set_: Annotated[list[str] | None, typer.Option("--set", help=SET_HELP)] = None,
    leave_one_out: Annotated[
        bool, typer.Option("--leave-one-out", help="Show the leave-one-out arms instead.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Show a recipe, fully resolved, as YAML that `scalerl train --recipe` reads.

    Example: scalerl recipes show scalerl --set loss.eps_max=8
    """
    import yaml

    from scalerl.recipe import diff, load_recipe

    recipe = load_recipe(name, set_ or [])
    if leave_one_out:
        arms = recipe.leave_one_out()
        if json:
            _print_json({axis: arm.to_dict() for axis, arm in arms.items()})
            return
        rows = [[axis, _short(d.a), _short(d.b)] for axis, arm in arms.items() for d in diff(recipe, arm)]
        _print_table(["arm", name, "instead"], rows)
        return
    if json:
        _print_json(recipe.to_dict())
    else:
        typer.echo(yaml.safe_dump(recipe.to_dict(), sort_keys=False, width=100), nl=False)


@app.command("diff")
def diff_(
    a: Annotated[str, typer.Argument(help="A recipe's name or file.")],
    b: Annotated[str, typer.Argument(help="Another recipe's name or file.")],
    json: JsonFlag = False,
) -> None:
    """Print the fields in which two recipes differ.

    Example: scalerl recipes diff scalerl base
    """
    from dataclasses import asdict

    from scalerl.recipe import diff, load_recipe

    differences = diff(load_recipe(a), load_recipe(b))
    if json:
        _print_json([asdict(difference) for difference in differences])
    elif differences:
        _print_table(["field", a, b], [[d.field, _short(d.a), _short(d.b)] for d in differences])
    else:
        typer.echo(f"{a} and {b} are the same recipe")


@app.command()
def fields(json: JsonFlag = False) -> None:
    """Print every field of a recipe: its options, their parameters, defaults and meaning.

    Example: scalerl recipes fields
    """
    from dataclasses import asdict

    from scalerl.recipe.fields import fields

    documented = fields()
    if json:
        _print_json([asdict(field) for field in documented])
        return
    rows = [[f.path, f.option, _short(f.default), f.description] for f in documented]
    _print_table(["field", "option", "default", "meaning"], rows)


def _short(value: Any) -> str:
    """Return an option on one line: its kind, then its parameters."""
    if not isinstance(value, dict):
        return f"{value:.4g}" if isinstance(value, float) else str(value)
    if value.get("kind") == "group":
        extras = {"over": value["over"]} if value["over"] != "kept" else {}
        return " ".join([value["normalisation"], *(f"{k}={v}" for k, v in extras.items())])
    parts = [str(value["kind"])] if "kind" in value else []
    for name, parameter in value.items():
        if name not in ("kind", "phrase"):
            parts.append(f"{name}={_short(parameter)}")
    return " ".join(parts)


def _print_table(columns: list[str], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console.width = 250
    console.print(table)


def _print_json(data: Any) -> None:
    import orjson

    typer.echo(orjson.dumps(data, option=orjson.OPT_INDENT_2).decode())
