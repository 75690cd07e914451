"""From a run's config to its parts: task, policy, engine, schedule, record."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import torch

import scalerl
from scalerl.errors import UserError
from scalerl.generate.torch_engine import TorchEngine
from scalerl.loop.config import RunConfig
from scalerl.loop.heldout import HeldOut
from scalerl.loop.learner import Learner, Listener
from scalerl.loop.rollouts import Assembly
from scalerl.loop.trainer import Trainer
from scalerl.policy.load import Policy, load_policy, save_policy
from scalerl.policy.tokenizer_files import copy_tokenizer
from scalerl.recipe.no_ops import no_op_axes
from scalerl.record.prompts import prompts_hash
from scalerl.record.schema import Devices, RunHeader
from scalerl.record.write import RunWriter
from scalerl.task.build import build_prompter, build_task
from scalerl.task.curriculum import build_curriculum
from scalerl.task.protocol import Example, Prompter, Task

Engine = TypeVar("Engine", bound=TorchEngine)
QUICKSTART = "quickstart"
QUICKSTART_FOLDER = Path(scalerl.__file__).parent / "policy" / "quickstart"
EVALUATION_SEED = 1 << 32
"""Added to the run's seed for evaluations, so that they share no draw with the training."""


def model_folder(config: RunConfig) -> Path:
    """Return the folder of the starting policy."""
    return QUICKSTART_FOLDER if config.model == QUICKSTART else Path(config.model)


def set_threads(config: RunConfig) -> None:
    """Pin CPU threads and flush denormals: both decide the last bits of sums, so both belong to the run."""
    torch.set_num_threads(config.threads)
    torch.set_flush_denormal(True)


@contextmanager
def pinned(config: RunConfig) -> Iterator[None]:
    """`set_threads` for the length of a run; what the process had before comes back."""
    threads = torch.get_num_threads()
    set_threads(config)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(False)


def task_of(config: RunConfig) -> Task:
    """Build the config's task; once a run, for drawing ten thousand prompts takes a second."""
    return build_task(config.task)


def build_engine(config: RunConfig, policy: Policy, prompter: Prompter) -> TorchEngine:
    """Return the engine that generates for training."""
    return make_engine(TorchEngine, config, policy, prompter, config.seed, config.engine.slots)


def make_engine(
    kind: type[Engine], config: RunConfig, policy: Policy, prompter: Prompter, seed: int, slots: int
) -> Engine:
    """Return an embedded engine of this kind, set up as the recipe says."""
    phrase = config.recipe.budgets.phrase
    return kind(
        policy,
        slots=slots,
        seed=seed,
        end_token=prompter.end_token,
        close_thinking=prompter.close_thinking,
        interruption_phrase=None if phrase is None else prompter.tokens(phrase),
        fp32_head=config.recipe.head == "fp32",
        recompute_kv_on_update=config.engine.recompute_kv_on_update,
    )


def build_learner(
    config: RunConfig, task: Task, writer: RunWriter, listener: Listener, weights_folder: Path | None
) -> Learner:
    """Put a run's parts together; `task` is `task_of(config)`.

    `weights_folder` is a checkpoint's, or None for the starting policy.
    """
    folder = model_folder(config)
    prompter = build_prompter(config.task, folder)
    policy = load_policy(weights_folder or folder, config.device, config.dtype)
    examples = _short_enough(task, prompter, config.recipe.sizes.max_prompt_tokens, listener)
    for reason in no_op_axes(
        config.recipe, model_dtype=config.dtype, training_prompts=len(examples), steps=config.steps
    ).values():
        listener.on_event("no effect", reason)
    seed = config.seed + EVALUATION_SEED
    samples = config.evaluation.samples_per_prompt
    slots = min(config.engine.slots, samples * len(task.held_out))
    held_out = HeldOut(
        engine=make_engine(TorchEngine, config, policy, prompter, seed, slots),
        examples=task.held_out,
        prompter=prompter,
        verifier=task.verifier,
        lengths=config.recipe.budgets,
        samples_per_prompt=samples,
        seed=seed,
    )
    return Learner(
        config,
        Trainer(policy, config.recipe, config.engine.micro_batch_tokens),
        Assembly(examples, prompter, task.verifier),
        build_curriculum(config.recipe.curriculum, tuple(examples), config.seed),
        held_out,
        writer,
        listener,
    )


def _short_enough(task: Task, prompter: Prompter, most: int, listener: Listener) -> dict[str, Example]:
    """Return the training examples by id, without those whose prompt is longer than the recipe allows."""
    kept = {example.id: example for example in task.train if len(prompter.encode(example)) <= most}
    if dropped := len(task.train) - len(kept):
        listener.on_event("data", f"{dropped} training prompts of more than {most} tokens are left out")
    if not kept:
        raise UserError(f"sizes.max_prompt_tokens={most}: every training prompt is longer; raise it")
    return kept


def held_out_hash(task: Task) -> str:
    """Return a name of the held-out set: two runs may be compared when theirs are equal."""
    return prompts_hash(example.id for example in task.held_out)


def weights_hash(folder: Path) -> str | None:
    """Return a name of a model folder's weights; None where they are in several files, or absent."""
    weights = folder / "model.safetensors"
    return hashlib.blake2b(weights.read_bytes(), digest_size=8).hexdigest() if weights.is_file() else None


def header_of(config: RunConfig, task: Task) -> RunHeader:
    """Return run.json's contents; `task` is `task_of(config)`."""
    folder = model_folder(config)
    if not any((folder / f"model.safetensors{end}").is_file() for end in ("", ".index.json")):
        raise UserError(
            f"model {str(folder)!r}: no model.safetensors in it; give a Hugging Face model folder"
        )
    digest = weights_hash(folder)
    plain = config.model_dump(mode="json")
    return RunHeader(
        name=config.name,
        recipe=plain.pop("recipe"),
        model={"path": config.model, "weights_hash": digest},
        task=config.task,
        held_out_hash=held_out_hash(task),
        seed=config.seed,
        devices=_devices(config),
        clock=plain["clock"],
        versions=_versions(),
        extra={"config": plain},
    )


def _versions() -> dict[str, str]:
    return {
        "scalerl": scalerl.__version__,
        "torch": version("torch"),
        "python": platform.python_version(),
    }


def _devices(config: RunConfig) -> Devices | None:
    if config.clock is None:
        return None
    profile = config.clock.profile
    return Devices(kind=profile.name, generators=profile.generators, trainers=profile.trainers)


def open_record(config: RunConfig, task: Task, path: Path) -> tuple[RunWriter, bool]:
    """Begin the record at `path`, or open it to go on; the flag says which.

    Raises UserError when the record there is of another run: it's never overwritten.
    """
    header = header_of(config, task)
    if not (path / "run.json").is_file():
        return RunWriter.create(path, header), False
    writer = RunWriter.open(path)
    if difference := _difference(writer.header, header):
        raise UserError(
            f"{path / 'run.json'}: holds another run (its {difference} differs); choose another folder"
        )
    return writer, True


def _difference(there: RunHeader, wanted: RunHeader) -> str | None:
    for field in ("recipe", "model", "task", "held_out_hash", "seed", "clock", "extra"):
        if getattr(there, field) != getattr(wanted, field):
            return field
    return None


def save_model(policy: Policy, tokenizer_folder: Path, folder: Path) -> None:
    """Write a checkpoint's Hugging Face part: weights, config and the tokenizer of the starting policy."""
    save_policy(policy, folder)
    copy_tokenizer(tokenizer_folder, folder)
