"""Tokens per second of the embedded engine and of `transformers`' own generate, on the same work."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from scalerl.generate.protocol import Budget, GroupRequest
from scalerl.generate.torch_engine import TorchEngine, generate_all
from scalerl.policy.load import Policy


@dataclass(frozen=True, slots=True)
class Workload:
    """What is generated: `generations_per_prompt` completions of each prompt, each up to its end token."""

    prompts: Sequence[tuple[int, ...]]
    generations_per_prompt: int
    max_new_tokens: int
    end_token: int
    pad_token: int

    @property
    def completions(self) -> int:
        """Completions in all."""
        return len(self.prompts) * self.generations_per_prompt


@dataclass(frozen=True, slots=True)
class Pass:
    """One run through the workload: tokens up to and including the end tokens, and what they took."""

    tokens: int
    seconds: float
    cpu_seconds: float

    @property
    def tokens_per_second(self) -> float:
        """By the wall clock."""
        return self.tokens / self.seconds


@dataclass(frozen=True, slots=True)
class Comparison:
    """Passes of each contestant, taken in turns so that a busy machine disturbs them alike."""

    engine: tuple[Pass, ...]
    transformers: tuple[Pass, ...]
    transformers_logprobs: tuple[Pass, ...]

    @property
    def ratio(self) -> float:
        """Median over the rounds of our tokens per second against transformers' (without log-probs)."""
        return _ratio(self.engine, self.transformers)

    @property
    def ratio_with_logprobs(self) -> float:
        """The same against transformers made to return log-probs, as the engine does."""
        return _ratio(self.engine, self.transformers_logprobs)


def compare(policy: Policy, workload: Workload, *, seed: int, rounds: int) -> Comparison:
    """Time both, in turns, after one untimed pass of each; every round draws other completions."""
    engine = TorchEngine(policy, slots=workload.completions, seed=seed, end_token=workload.end_token)
    contestants: dict[str, Callable[[int], int]] = {
        "engine": lambda round_: _engine_tokens(engine, workload, round_),
        "transformers": lambda round_: _transformers_tokens(policy, workload, seed + round_, False),
        "transformers_logprobs": lambda round_: _transformers_tokens(policy, workload, seed + round_, True),
    }
    passes: dict[str, list[Pass]] = {name: [] for name in contestants}
    for generate in contestants.values():
        generate(0)
    for round_ in range(1, rounds + 1):
        for name, generate in contestants.items():
            started, cpu_started = time.perf_counter(), time.process_time()
            tokens = generate(round_)
            _wait(policy)
            seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
            passes[name].append(Pass(tokens, seconds, cpu_seconds))
    return Comparison(**{name: tuple(found) for name, found in passes.items()})


def _engine_tokens(engine: TorchEngine, workload: Workload, round_: int) -> int:
    """Generate with the engine; log-probs are always recorded."""
    budgets = (Budget(0, workload.max_new_tokens),) * workload.generations_per_prompt
    first = round_ * len(workload.prompts)
    groups = [GroupRequest(g, str(g), prompt, budgets) for g, prompt in enumerate(workload.prompts, first)]
    return sum(len(completion.tokens) for completion in generate_all(engine, groups))


@torch.no_grad()
def _transformers_tokens(policy: Policy, workload: Workload, seed: int, logprobs: bool) -> int:
    """Generate with transformers: all completions as one left-padded batch, KV cache, plain sampling."""
    longest = max(len(prompt) for prompt in workload.prompts)
    pads = [longest - len(prompt) for prompt in workload.prompts]
    rows = [
        [workload.pad_token] * pad + list(prompt) for pad, prompt in zip(pads, workload.prompts, strict=True)
    ]
    tokens = torch.tensor(rows, device=policy.device)
    mask = (torch.arange(longest) >= torch.tensor(pads)[:, None]).long().to(policy.device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        output = policy.model.generate(
            tokens.repeat_interleave(workload.generations_per_prompt, 0),
            attention_mask=mask.repeat_interleave(workload.generations_per_prompt, 0),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=workload.max_new_tokens,
            eos_token_id=workload.end_token,
            pad_token_id=workload.pad_token,
            use_cache=True,
            return_dict_in_generate=True,
            output_logits=logprobs,
        )
    made = output.sequences[:, longest:]
    if logprobs:
        for column, logits in enumerate(output.logits):
            logits.float().log_softmax(-1).gather(1, made[:, column, None])
    before_end = (made == workload.end_token).cumsum(1) - (made == workload.end_token).long() == 0
    return int(before_end.sum())


def _wait(policy: Policy) -> None:
    """A GPU's work counts when it is done."""
    if policy.device.type == "cuda":
        torch.cuda.synchronize(policy.device)


def _ratio(ours: Sequence[Pass], theirs: Sequence[Pass]) -> float:
    return median(a.tokens_per_second / b.tokens_per_second for a, b in zip(ours, theirs, strict=True))
