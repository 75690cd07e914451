"""What the fields of other trainers' logs mean: step, tokens, seconds, pass rates. Extended by x= and y=."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

Role = Literal[
    "step", "tokens_total", "tokens_step", "seconds_total", "seconds_step", "seconds_either", "timestamp",
    "device_hours", "flops", "held_out", "unstated", "train", "range", "samples", "group",
]  # fmt: skip

RATES: tuple[Role, ...] = ("held_out", "unstated", "train")
"""Roles of fields that could be a pass rate."""


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Exact names, "/" also written "_" or ".", most telling first. From the trainers' sources and real files.
STEP = (
    "training/global_step", "train/global_step", "trainer/global_step", "global_step", "step",
    "progress/batch", "progress/step", "current_steps", "global_step/max_steps", "trainer_step", "train_step",
    "iteration", "iter", "update", "rollout", "rollout/step", "num_updates", "train/step", "steps", "_step",
)  # fmt: skip
TOKENS_TOTAL = (
    "num_tokens", "train/num_tokens", "total_tokens", "tokens_seen", "val/num_total_tokens",
    "num_total_tokens",
    "stats/tokens", "tokens_trained", "cumulative_tokens", "eval_num_tokens", "eval/num_tokens",
)  # fmt: skip
TOKENS_STEP = (
    "perf/total_num_tokens", "env/all/total_ac_tokens", "env/all/total_ob_tokens", "train/global_valid_toks",
    "global_valid_toks", "tokens_per_step",
)  # fmt: skip
SECONDS_TOTAL = (
    "eval/time", "_runtime", "relative time (process)", "relative time (wall)", "runtime", "total_time",
    "wall_time", "time_elapsed", "wall_clock_s", "seconds",
)  # fmt: skip
SECONDS_STEP = (
    "timing_s/step", "perf/time_per_step", "perf/step_time", "step_time", "train/step_time", "time/total",
    "time/step", "time/step_s", "timing/step", "timing/step_total", "timing/train/total_step_time",
    "timeperf/step",
    "iter_time_s", "total step time", "step_time_s", "time_per_step", "seconds_per_step",
)  # fmt: skip
SECONDS_EITHER = ("elapsed_time", "elapsed", "time/elapsed", "elapsed_s", "elapsed_seconds")
TIMESTAMP = ("_timestamp", "timestamp", "wall time", "time/timestamp")
DEVICE_HOURS = (
    "device_hours", "gpu_hours", "gpu-hours", "gpu hours", "device-hours", "device hours", "compute_hours",
)  # fmt: skip
FLOPS = ("flops", "total_flops", "train/total_flops")
GROUP = (
    "run", "run_name", "run_id", "method", "condition", "recipe", "arm", "variant", "algorithm", "algo",
    "experiment", "exp", "exp_name", "experiment_name", "model", "model_name", "config", "env", "environment",
    "seed", "task",
    "dataset", "trial", "label",
)  # fmt: skip
SAMPLES = (
    "n_problems",
    "n_scored",
    "num_examples",
    "n_samples",
    "num_samples",
    "n_examples",
    "n_eval",
    "num_problems",
)

_RATE = _word_set(
    "acc accuracy reward rewards score scores correct correctness success solve solved solverate pass "
    "passrate  em winrate avg pass@1 pass1 solve_rate rt ans return"
)
_EVAL = _word_set("eval evaluation val valid validation test heldout held holdout dev evals")
_NOT_A_RATE = _word_set(
    "std stderr sem ci var loss losses kl length lengths len entropy grad norm lr time timing times clip "
    "clipped  clipfrac min max num n count counts token tokens advantage advantages adv returns zero frac "
    "weight coef ppl  perplexity memory gb mfu hist diff corr epoch seconds sec throughput penalty probs "
    "prob turns step steps  format formatted best worst maj threshold temperature gap delta trend "
    "baseline shaped seqlen total_num  per samples staleness lag percentile p50 p90 p95 p99 size bytes "
    "sha256 novelty prefix group valid_rate  for both hack hacking trace"
)
# Fields that are pass rates or rewards for sure, in order of preference; the pattern is matched on "/" names.
_HELD_OUT = tuple(
    re.compile(pattern)
    for pattern in (
        r"(val|test|eval)-core/.*acc/(mean|avg)@\d+",
        r"test/env/(all/)?.*correct",
        r"(eval|validation|val|test)[/_](pass@1|pass_at_1|pass1|accuracy|acc|avg@\d+|(success|solve|pass)_rate)",
        r"heldout_acc(uracy)?|held_out_(acc|accuracy|pass_rate)|held_out|eval_acc(uracy)?",
        r"(eval|validation|val|test)[/_].*(final_ans\w*|final_answer_acc\w*)",
        r"eval[/_].*(avg@\d+|pass@1|pass_at_1|accuracy|acc|avg_score)(/mean)?",
        r"(val|test|eval)-core/.*(reward|score)/mean@\d+",
        r"eval[/_]reward|eval/scores|val/success_rate|validation/accuracy|eval-rollout/reward",
        r"val/test_score/.*|test/env/(all/)?.*reward/total",
        r"eval[/_]rewards/.*|eval/[^/]+",
        r"(val|test|eval)-aux/.*(acc|reward|score)/mean@\d+",
    )
)
_UNSTATED = tuple(
    re.compile(pattern)
    for pattern in (
        r"final_answer_acc(uracy)?",
        r"pass_rate|pass@1|pass_at_1|solve_rate|success_rate",
        r"accuracy|acc",
    )
)
_TRAIN = tuple(
    re.compile(pattern)
    for pattern in (
        r"critic/score/mean",
        r"reward|train/reward|train_reward",
        r"env/all/correct|mean_correct|train/(accuracy|pass_rate|pass@1)",
        r"reward/avg_raw_reward|rollout/raw_reward|env/all/reward/total|reward/mean|mean_reward|avg reward",
        r"reward_(avg|mean)|avg_reward|rl/reward|scores|ppo_actor/task_reward/avg|train/.*reward/mean",
        r"critic/rewards/mean",
        r"(train/)?rewards/[^/]+(/mean)?",
        r"reward_trace|rewards|batch_accuracy|actor/.*success_mean",
    )
)


def canonical(name: str) -> str:
    """Lower case; verl names that CSV exports flattened ('critic_score_mean') get their slashes back."""
    low = name.strip().lower()
    if "/" in low:
        return low
    for prefix in ("critic_score_", "critic_rewards_", "timing_s_", "perf_", "training_"):
        if low.startswith(prefix):
            head = prefix.rstrip("_").replace("critic_", "critic/")
            return f"{head}/{low[len(prefix) :]}"
    if match := re.fullmatch(r"((?:val|test)-(?:core|aux))_(.+)_(acc|reward|score)_(\w+@\d+.*)", low):
        return f"{match[1]}/{match[2]}/{match[3]}/{match[4]}"
    return low


_EXACT: dict[str, Role] = {
    **dict.fromkeys(GROUP, "group"),
    **dict.fromkeys(TIMESTAMP, "timestamp"),
    **dict.fromkeys(SECONDS_EITHER, "seconds_either"),
    **dict.fromkeys(SECONDS_STEP, "seconds_step"),
    **dict.fromkeys(SECONDS_TOTAL, "seconds_total"),
    **dict.fromkeys(TOKENS_STEP, "tokens_step"),
    **dict.fromkeys(TOKENS_TOTAL, "tokens_total"),
    **dict.fromkeys(DEVICE_HOURS, "device_hours"),
    **dict.fromkeys(FLOPS, "flops"),
    **dict.fromkeys(STEP, "step"),
}


@lru_cache(maxsize=65536)
def role_of(name: str) -> Role | None:
    """What a field is for, or None where nothing here knows a use for it."""
    low = canonical(name)
    if (exact := _EXACT.get(low)) is not None:
        return exact
    if re.search(r"\b(best|maj|worst|std|median)@\d|per_s(ec(ond)?)?\b|runtime", low):
        return None
    for patterns, role in ((_HELD_OUT, "held_out"), (_UNSTATED, "unstated"), (_TRAIN, "train")):
        if any(pattern.fullmatch(low) for pattern in patterns) and not _excluded(low):
            return role  # type: ignore[return-value]
    words = _words(low)
    if low.rsplit("/", 1)[-1] in SAMPLES or (words & _EVAL and any(low.endswith(name) for name in SAMPLES)):
        return "samples"
    if not words & _RATE:
        return None
    if words & {"min", "max", "std"}:
        return "range"
    if words & _NOT_A_RATE:
        return None
    if words & _EVAL:
        return "held_out"
    return "train" if words & {"reward", "rewards", "score", "scores", "train", "batch"} else "unstated"


def preference(name: str) -> int:
    """Rank of a pass-rate field within its role: smaller is preferred."""
    low = canonical(name)
    patterns = {"held_out": _HELD_OUT, "unstated": _UNSTATED, "train": _TRAIN}.get(role_of(name) or "", ())
    for rank, pattern in enumerate(patterns):
        if pattern.fullmatch(low):
            return rank
    return len(patterns)


def step_preference(name: str) -> int:
    """Rank of a step field: the trainer's own counter before W&B's count of log calls."""
    low = canonical(name)
    return STEP.index(low) if low in STEP else len(STEP)


def companions(name: str) -> tuple[str, ...]:
    """Fields that tell the range of single rewards behind a mean: its /min and /max, its training twin."""
    found: list[str] = []
    for mean, others in (("/mean", ("/min", "/max")), ("_mean", ("_min", "_max"))):
        if name.endswith(mean):
            found += [name.removesuffix(mean) + other for other in others]
    for held, trained in (("eval_", ""), ("eval/", "train/"), ("eval/", "")):
        if name.startswith(held):
            found.append(trained + name.removeprefix(held))
    return tuple(found)


def spread_fields(name: str) -> tuple[str, ...]:
    """Fields with the standard deviation of single rewards behind a mean."""
    if name.endswith("/mean"):
        return (name.removesuffix("/mean") + "/std",)
    return (f"{name}_std",)


def is_reward_function(name: str) -> bool:
    """Whether a field is one of several reward functions that a TRL-like trainer adds up."""
    return re.fullmatch(r"(train/|eval[/_])?rewards/[^/]+(/mean)?", name) is not None


def _words(low: str) -> set[str]:
    return set(re.split(r"[^a-z0-9@]+", low))


def _excluded(low: str) -> bool:
    """A pattern's wildcard may have swallowed a deviation, a length, a best-of."""
    words = _words(low) - {"step", "per", "samples", "for", "trace", "group", "total", "size"}
    return bool(words & _NOT_A_RATE)
