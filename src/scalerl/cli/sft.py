"""`scalerl sft`: a supervised warm start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from scalerl.policy.load import Policy
    from scalerl.policy.sft import Demonstration, SftSettings


def sft(
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the checkpoint (a Hugging Face model folder).")
    ],
    demonstrations: Annotated[
        Path | None,
        typer.Option(help="JSONL with `prompt` and `completion`; without it: the quickstart's teacher."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Starting model; without it: the quickstart's, new.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Optimizer steps.")] = 1100,
    demonstrations_per_step: Annotated[int, typer.Option(min=1)] = 128,
    learning_rate: Annotated[float, typer.Option(min=0.0)] = 4e-3,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    threads: Annotated[int, typer.Option(min=1)] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda ...")] = "cpu",
) -> None:
    """Fine-tune on demonstrations, before RL.

    Example: scalerl sft --out sft                (the quickstart's checkpoint, about five minutes)

    Example: scalerl sft --model base --demonstrations data.jsonl --learning-rate 3e-5 --out sft
    """
    import torch

    from scalerl.errors import UserError
    from scalerl.policy.load import save_policy
    from scalerl.policy.sft import SftSettings
    from scalerl.policy.tokenizer_files import copy_tokenizer

    if (model is None) != (demonstrations is None):
        raise UserError("--model and --demonstrations: give both, or neither for the quickstart's own")
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    settings = SftSettings(
        steps=steps, demonstrations_per_step=demonstrations_per_step, learning_rate=learning_rate
    )
    if model is None or demonstrations is None:
        from scalerl.policy.warm_start import quickstart_policy, teacher_demonstrations
        from scalerl.task.arithmetic import arithmetic_tokenizer

        tokenizer = arithmetic_tokenizer()
        policy = quickstart_policy(tokenizer, seed)
        _run(policy, teacher_demonstrations(tokenizer, seed), settings)
        tokenizer.save(out)
    else:
        from scalerl.policy.load import load_policy
        from scalerl.policy.warm_start import file_demonstrations
        from scalerl.task.build import build_prompter

        policy = load_policy(model, device)
        prompter = build_prompter({}, model)
        _run(policy, file_demonstrations(demonstrations, prompter, seed), settings)
        copy_tokenizer(model, out)
    save_policy(policy, out)
    typer.echo(f"{out}: {steps} steps. Next: scalerl train --model {out} --out runs/a")


def _run(policy: Policy, demonstrations: Iterator[Demonstration], settings: SftSettings) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from scalerl.policy.sft import sft as run_sft

    columns: tuple[Any, ...] = (BarColumn(), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]:.3f}"))
    console = Console(stderr=True)
    with Progress(
        *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal
    ) as progress:
        bar = progress.add_task("sft", total=settings.steps, loss=float("nan"))
        run_sft(
            policy,
            demonstrations,
            settings,
            lambda step, loss, _: progress.update(bar, completed=step + 1, loss=loss),
        )
