"""TRL's GRPOTrainer on the same step, at the setting in which it is fastest on a CPU.

Completions of a step are generated in one batch by transformers' `generate` with its KV cache (vLLM and
continuous batching are for GPUs), one update a step, no reference model, no gradient checkpointing, float32,
no logging to disk. The update runs in micro-batches of `per_device_train_batch_size`; the caller tries
several and takes the fastest.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from scalerl.errors import UserError
from scalerl.loop.step_benchmark import LEARNING_RATE, StepTime, StepWork, our_step
from scalerl.policy.load import Policy


def trl_version() -> str:
    """TRL's version; UserError when it isn't installed."""
    try:
        import trl
    except ImportError as error:
        raise UserError(
            f"trl can't be imported ({error}): install the extra with pip install 'scalerl[bench]'"
        ) from error
    return str(trl.__version__)


def steps_by_turns(
    load: Callable[[], Policy],
    work: StepWork,
    seed: int,
    steps: int,
    micro_batch_tokens: int,
    completions_per_micro_batch: int,
) -> tuple[list[StepTime], list[StepTime]]:
    """Time `steps` steps of ours and of GRPOTrainer, by turns, each on a policy of its own; (ours, theirs).

    One more step of each, untimed, warms up. UserError when TRL isn't there.
    """
    take, ours = our_step(load(), work, seed, micro_batch_tokens), list[StepTime]()
    theirs = trl_steps(
        load(), work, seed, completions_per_micro_batch, steps, lambda number: ours.append(take(number))
    )
    return ours[1:], theirs


def trl_steps(
    policy: Policy,
    work: StepWork,
    seed: int,
    completions_per_micro_batch: int,
    steps: int,
    after_step: Callable[[int], None],
) -> list[StepTime]:
    """Run `steps` + 1 steps of GRPOTrainer on the policy; the first, untimed, warms up.

    After step n, outside its time, `after_step(n)` is called: the other side's turn.
    """
    trl_version()
    from transformers import AutoTokenizer, PrinterCallback

    if policy.path is None:
        raise UserError("trl needs a model folder with its tokenizer")
    tokenizer = AutoTokenizer.from_pretrained(policy.path, padding_side="left")
    clock = _clock(after_step)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # transformers renames options between its versions
        trainer = _trainer(
            policy, work, tokenizer, clock, seed, completions_per_micro_batch, steps + 1, folder
        )
        trainer.remove_callback(PrinterCallback)  # it prints although logging is off
        trainer.train()
    return clock.times[1:]


def _trainer(
    policy: Policy,
    work: StepWork,
    tokenizer: Any,
    clock: Any,
    seed: int,
    micro_batch: int,
    steps: int,
    folder: str,
) -> Any:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    completions = work.prompts_per_step * work.generations_per_prompt
    prompts = [tokenizer.decode(list(work.prompter.encode(example))) for example in work.examples]
    rows = {"prompt": prompts, "index": list(range(len(prompts)))}
    config = GRPOConfig(
        output_dir=folder,
        use_cpu=policy.device.type == "cpu",
        bf16=False,
        gradient_checkpointing=False,
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=completions // micro_batch,
        num_generations=work.generations_per_prompt,
        max_completion_length=work.max_completion_tokens,
        max_steps=steps,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        beta=0.0,
        loss_type="grpo",
        scale_rewards="group",
        mask_truncated_completions=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_num_workers=0,
        seed=seed,
    )
    return GRPOTrainer(
        model=policy.model,
        reward_funcs=_reward(work, clock),
        args=config,
        train_dataset=Dataset.from_dict(rows),
        processing_class=tokenizer,
        callbacks=[clock],
    )


def _reward(work: StepWork, clock: Any) -> Any:
    """The task's verifier as a reward function; it also sees the end of generation."""

    def reward(completion_ids: Sequence[Sequence[int]], index: Sequence[int], **_: Any) -> list[float | None]:
        clock.generated(sum(len(tokens) for tokens in completion_ids))
        texts = [work.prompter.decode(list(tokens)) for tokens in completion_ids]
        words = work.verifier([work.examples[i] for i in index], texts)
        return [None if word is None else word.reward for word in words]

    return reward


def _clock(after_step: Callable[[int], None]) -> Any:
    """A callback that times whole steps, generation and update alike."""
    from transformers import TrainerCallback

    class Clock(TrainerCallback):
        def __init__(self) -> None:
            self.times: list[StepTime] = []
            self._start()

        def _start(self) -> None:
            self._wall, self._cpu, self._tokens, self._generation = (
                time.perf_counter(),
                time.process_time(),
                0,
                0.0,
            )

        def generated(self, tokens: int) -> None:
            self._tokens += tokens
            self._generation = time.perf_counter() - self._wall

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self._start()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            seconds, cpu_seconds = time.perf_counter() - self._wall, time.process_time() - self._cpu
            self.times.append(StepTime(seconds, cpu_seconds, self._tokens, self._generation))
            after_step(len(self.times) - 1)

    return Clock()
