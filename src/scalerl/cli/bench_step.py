"""`scalerl bench step`: one whole RL step, ours against TRL's GRPOTrainer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from scalerl.loop.step_benchmark import StepTime, StepWork
    from scalerl.policy.load import Policy


def step(
    against: Annotated[Literal["trl"], typer.Option(help="The other trainer.")] = "trl",
    model: Annotated[str, typer.Option(help="`quickstart` or a model folder of that task.")] = "quickstart",
    prompts_per_step: Annotated[int, typer.Option(min=1)] = 48,
    generations_per_prompt: Annotated[int, typer.Option(min=2)] = 16,
    max_completion_tokens: Annotated[int, typer.Option(min=2, help="Longest completion, in tokens.")] = 64,
    steps: Annotated[int, typer.Option(min=1, help="Timed steps of each, after one untimed.")] = 3,
    micro_batch_tokens: Annotated[int, typer.Option(min=1, help="Our trainer's micro-batch.")] = 3072,
    trl_micro_batch: Annotated[
        list[int] | None, typer.Option(help="TRL's micro-batches, in completions; the fastest counts.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")] = False,
) -> None:
    """Time a whole step (generation, reward, update) of ours and of TRL's GRPOTrainer, side by side.

    Same model, prompts, verifier, generation limits and loss (GRPO's clip, on-policy, float32), a tiny
    learning rate so that lengths stay. TRL generates a step's completions in one batch with transformers; its
    update is tried with several micro-batch sizes and the fastest counts. The two take turns, step by step.
    Needs the extra `bench`.

    Example: scalerl bench step --against trl --steps 5
    """
    import torch

    from scalerl.loop.step_benchmark_trl import steps_by_turns, trl_version

    version = trl_version()
    torch.set_num_threads(threads)
    work, load = _work(model, prompts_per_step, generations_per_prompt, max_completion_tokens)
    completions = prompts_per_step * generations_per_prompt
    sizes = trl_micro_batch or [size for size in (completions, completions // 4) if completions % size == 0]

    mine: list[StepTime] = []
    theirs: dict[int, list[StepTime]] = {}
    for size in sizes:
        ours, theirs[size] = steps_by_turns(load, work, seed, steps, micro_batch_tokens, size)
        mine += ours
    result = _summary(mine, theirs, version, threads)
    if json:
        import orjson

        typer.echo(orjson.dumps(result, option=orjson.OPT_INDENT_2).decode())
        return
    _print(result, prompts_per_step, generations_per_prompt, max_completion_tokens)


def _work(
    model: str, prompts_per_step: int, generations_per_prompt: int, max_completion_tokens: int
) -> tuple[StepWork, Callable[[], Policy]]:
    """The built-in task's training prompts, and a loader of fresh policies."""
    from scalerl.loop.setup import QUICKSTART, QUICKSTART_FOLDER
    from scalerl.loop.step_benchmark import StepWork
    from scalerl.policy.load import load_policy
    from scalerl.task.build import build_prompter, build_task

    folder = QUICKSTART_FOLDER if model == QUICKSTART else Path(model)
    spec = {"kind": "arithmetic"}
    task = build_task(spec)
    work = StepWork(
        prompts_per_step=prompts_per_step,
        generations_per_prompt=generations_per_prompt,
        max_completion_tokens=max_completion_tokens,
        examples=task.train,
        prompter=build_prompter(spec, folder),
        verifier=task.verifier,
    )
    return work, lambda: load_policy(folder)


def _summary(
    ours: Sequence[StepTime], theirs: dict[int, list[StepTime]], version: str, threads: int
) -> dict[str, Any]:
    from statistics import median

    def of(times: Sequence[StepTime]) -> dict[str, Any]:
        return {
            "seconds": median(t.seconds for t in times),
            "cpu_seconds": median(t.cpu_seconds for t in times),
            "generation_seconds": median(t.generation_seconds for t in times),
            "tokens": round(sum(t.tokens for t in times) / len(times)),
            "all_seconds": [t.seconds for t in times],
        }

    trl = {size: of(times) for size, times in theirs.items()}
    best = min(trl, key=lambda size: trl[size]["cpu_seconds"])
    mine = of(ours)
    return {
        "trl_version": version,
        "threads": threads,
        "scalerl": mine,
        "trl": {str(size): times for size, times in trl.items()},
        "trl_micro_batch": best,
        "ratio_seconds": trl[best]["seconds"] / mine["seconds"],
        "ratio_cpu_seconds": trl[best]["cpu_seconds"] / mine["cpu_seconds"],
    }


def _print(result: dict[str, Any], prompts: int, generations: int, tokens: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("", "s a step", "CPU-s a step", "generation s", "tokens", box=None, pad_edge=False)
    rows = {"scalerl": result["scalerl"]}
    for size, times in result["trl"].items():
        rows[f"trl {result['trl_version']}, micro-batch {size}"] = times
    for label, times in rows.items():
        figures = (f"{times[key]:.2f}" for key in ("seconds", "cpu_seconds", "generation_seconds"))
        table.add_row(label, *figures, f"{times['tokens']:,}")
    console = Console()
    console.print(
        f"{prompts} x {generations} completions of at most {tokens} tokens, {result['threads']} thread(s)"
    )
    console.print(table)
    console.print(
        f"TRL's fastest takes {result['ratio_seconds']:.1f}x our time, "
        f"{result['ratio_cpu_seconds']:.1f}x our CPU time"
    )
