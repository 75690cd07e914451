"""`scalerl bench generate`: the embedded engine's tokens per second against transformers' own generate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from scalerl.generate.benchmark import Comparison, Pass, Workload
    from scalerl.policy.load import Policy

_TINY = {
    "vocab_size": 32,
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "tie_word_embeddings": True,
    "max_position_embeddings": 4096,
}


def generate(
    model: Annotated[
        str, typer.Option(help="`quickstart`, `random` (the same sizes, random weights) or a model folder.")
    ] = "quickstart",
    prompts: Annotated[int, typer.Option(min=1, help="Prompts.")] = 16,
    generations_per_prompt: Annotated[int, typer.Option(min=1, help="Completions of each prompt.")] = 16,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest completion, in tokens.")] = 64,
    rounds: Annotated[int, typer.Option(min=1, help="Timed passes of each, in turns.")] = 5,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    device: Annotated[str, typer.Option(help="`cpu` or `cuda`.")] = "cpu",
    seed: Annotated[int, typer.Option(min=0, help="Seed of prompts and sampling.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")] = False,
) -> None:
    """Compare the embedded engine with transformers' generate: same model, prompts, sampling, limits.

    transformers runs at its fastest fair setting: all completions in one left-padded batch, KV cache, plain
    sampling at temperature 1, no log-probabilities (a second row has it return them, as the engine always
    does). Tokens are counted up to and including each end token. Completions vary in length.

    Example: scalerl bench generate --threads 2
    """
    import torch

    from scalerl.generate.benchmark import compare

    torch.set_num_threads(threads)
    policy, workload = _workload(model, device, prompts, generations_per_prompt, max_new_tokens, seed)
    comparison = compare(policy, workload, seed=seed, rounds=rounds)
    if json:
        import orjson

        typer.echo(orjson.dumps(_as_dict(model, threads, comparison), option=orjson.OPT_INDENT_2).decode())
        return
    _print_table(workload, threads, comparison)


def _workload(
    model: str, device: str, prompts: int, generations: int, max_new_tokens: int, seed: int
) -> tuple[Policy, Workload]:
    """The policy and what to generate: the task's prompts for the quickstart, else random ones."""
    import random

    from scalerl.generate.benchmark import Workload
    from scalerl.policy.load import load_policy, new_policy

    rng = random.Random(seed)
    if model == "quickstart":
        from scalerl.loop.setup import QUICKSTART_FOLDER
        from scalerl.task.build import build_prompter, build_task

        spec = {"kind": "arithmetic"}
        prompter = build_prompter(spec, QUICKSTART_FOLDER)
        examples = rng.sample(build_task(spec).train, prompts)
        tokens = [prompter.encode(example) for example in examples]
        policy = load_policy(QUICKSTART_FOLDER, device)
        return policy, Workload(tokens, generations, max_new_tokens, prompter.end_token, 0)
    policy = new_policy(_TINY, seed, device) if model == "random" else load_policy(Path(model), device)
    config: Any = policy.model.config
    end = config.eos_token_id if config.eos_token_id is not None else 1
    end = end[0] if isinstance(end, list) else end
    lengths = [rng.randint(8, 24) for _ in range(prompts)]
    tokens = [tuple(rng.randrange(config.vocab_size) for _ in range(length)) for length in lengths]
    return policy, Workload(tokens, generations, max_new_tokens, end, 0)


def _rows(comparison: Comparison) -> dict[str, tuple[Pass, ...]]:
    return {
        "engine": comparison.engine,
        "transformers": comparison.transformers,
        "transformers_logprobs": comparison.transformers_logprobs,
    }


def _as_dict(model: str, threads: int, comparison: Comparison) -> dict[str, Any]:
    import torch
    import transformers

    rows = {
        name: [{"tokens": p.tokens, "seconds": p.seconds, "cpu_seconds": p.cpu_seconds} for p in passes]
        for name, passes in _rows(comparison).items()
    }
    return {
        "model": model,
        "threads": threads,
        "torch": torch.__version__,
        "transformers_version": transformers.__version__,
        **rows,
        "ratio": comparison.ratio,
        "ratio_with_logprobs": comparison.ratio_with_logprobs,
    }


def _print_table(workload: Workload, threads: int, comparison: Comparison) -> None:
    from statistics import mean, median

    import transformers
    from rich.console import Console
    from rich.table import Table

    labels = {
        "engine": "scalerl engine, with log-probs",
        "transformers": f"transformers {transformers.__version__} generate",
        "transformers_logprobs": "the same, with log-probs",
    }
    ratios = {
        "engine": "",
        "transformers": f"{comparison.ratio:.1f}x",
        "transformers_logprobs": f"{comparison.ratio_with_logprobs:.1f}x",
    }
    columns = ("", "tokens/s", "tokens/CPU-s", "mean length", "engine is")
    table = Table(*columns, box=None, pad_edge=False)
    for name, passes in _rows(comparison).items():
        table.add_row(
            labels[name],
            f"{median(p.tokens_per_second for p in passes):,.0f}",
            f"{median(p.tokens / p.cpu_seconds for p in passes):,.0f}",
            f"{mean(p.tokens for p in passes) / workload.completions:.1f}",
            ratios[name],
        )
    console = Console()
    console.print(
        f"{workload.completions} completions of {len(workload.prompts)} prompts, at most "
        f"{workload.max_new_tokens} tokens each; {threads} thread(s); "
        f"medians of {len(comparison.engine)} rounds"
    )
    console.print(table)
