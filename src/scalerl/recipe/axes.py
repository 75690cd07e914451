"""The axes of the recipe space, one frozen model an option; `kind` names the option.

Each option holds its own parameters and nothing else, so a parameter can't be set where it would be ignored.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]


class Option(BaseModel):
    """What all options share: frozen, unknown fields refused, a docstring under each field."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        ser_json_inf_nan="strings",
        allow_inf_nan=True,
    )


class UserFunction(Option):
    """A function in a Python file of the user's: `mine.py:my_loss`. Never run while parsing."""

    kind: Literal["custom"] = "custom"
    path: Annotated[str, Field(pattern=r"^.+\.py:[A-Za-z_]\w*$")]
    """File and function, `file.py:function`; a relative file is looked up beside the recipe's file."""
    sha256: str | None = None
    """Hash of the file's contents, filled in when the recipe is resolved; a later mismatch is refused."""


# off-policy algorithm


class PpoOffPolicy(Option):
    """PPO-off-policy-k: k batches from one set of weights, then k trainer steps; the sides alternate."""

    kind: Literal["ppo_off_policy"] = "ppo_off_policy"
    k: Annotated[int, Field(ge=1)] = 8
    """Trainer steps taken on each round of generation; 1 is on-policy."""


class Pipeline(Option):
    """PipelineRL-k: generators never stop; new weights reach completions in flight at once."""

    kind: Literal["pipeline"] = "pipeline"
    k: Annotated[int, Field(ge=1)] = 8
    """Most trainer steps between a group's start and the step that trains on it."""


# loss type


class Cispo(Option):
    """CISPO: sg(min(rho, eps_max)) A log pi_train, per token; no lower bound."""

    kind: Literal["cispo"] = "cispo"
    eps_max: Positive = 5.0
    """Upper bound of the ratio, absolute (not 1 + eps); infinity gives importance-weighted REINFORCE."""


class Clip(Option):
    """GRPO/DAPO clip, per token: min(rho A, clip(rho, 1 - eps_low, 1 + eps_high) A)."""

    kind: Literal["clip"] = "clip"
    eps_low: Annotated[float, Field(gt=0, le=1)] = 0.2
    """The ratio's lower bound is 1 - eps_low."""
    eps_high: Positive = 0.26
    """The ratio's upper bound is 1 + eps_high. GRPO 0.2; DAPO 0.28, 0.26 in the source."""


class Gspo(Option):
    """GSPO: as clip, with the sequence's ratio (pi_train(y) / pi_gen(y))^(1/|y|) in every token."""

    kind: Literal["gspo"] = "gspo"
    eps_low: Annotated[float, Field(gt=0, le=1)] = 3e-3
    """The ratio's lower bound is 1 - eps_low."""
    eps_high: Positive = 5e-3
    """The ratio's upper bound is 1 + eps_high."""


class CustomLoss(UserFunction):
    """A loss of the user's: (logp, behaviour_logp, advantage, completion, lengths) -> loss a token."""


# advantage


class GroupAdvantage(Option):
    """A_i = r_i - mean of the prompt's rewards, divided by a standard deviation (population) + eps."""

    kind: Literal["group"] = "group"
    normalisation: Literal["prompt", "batch", "none"]
    """Whose standard deviation divides: the prompt's rewards, all advantages of the batch, or none."""
    over: Literal["kept", "all"] = "kept"
    """Batch normalisation: over the completions of kept prompts, or over those of dropped prompts too."""
    eps: Annotated[float, Field(ge=0)] = 1e-6
    """Added to the standard deviation."""


class CustomAdvantage(UserFunction):
    """Advantages of the user's: (reward, prompt, kept) -> advantage, one value a completion."""


# reward


class VerifierReward(Option):
    """The reward that the task's verifier gives, +1 / -1 unless the task says otherwise."""

    kind: Literal["verifier"] = "verifier"


class CustomReward(UserFunction):
    """Rewards of the user's: (passed, completions) -> rewards, for one prompt's survivors."""


# curriculum


class Uniform(Option):
    """Every prompt once an epoch, in a seeded order."""

    kind: Literal["uniform"] = "uniform"


class NoPositiveResampling(Option):
    """A prompt whose pass rate has reached the threshold isn't sampled again, from the second epoch on."""

    kind: Literal["no_positive_resampling"] = "no_positive_resampling"
    threshold: Share = 0.9
    """Historical pass rate from which a prompt is retired."""
    history: Literal["last_visit", "all_visits"] = "last_visit"
    """The pass rate that counts: that of the prompt's latest group, or of all its completions so far."""


class CustomCurriculum(UserFunction):
    """A curriculum of the user's: (prompt_ids, seed) -> an object like task.curriculum.Curriculum."""


# length control


class Interruption(Option):
    """Thinking still open at a budget drawn uniformly is closed by appending a phrase, unsampled; then the
    answer.

    The budget's bounds are shares of `sizes.max_thinking_tokens`, so that a recipe keeps its meaning at
    other lengths: [10k, 12k] of 12,288 tokens (k = 1,024) in the source's setting, [25, 30] where thinking
    may take 30.
    """

    kind: Literal["interruption"] = "interruption"
    min_thinking_share: Share = 5 / 6
    """Smallest budget as a share of sizes.max_thinking_tokens."""
    max_thinking_share: Share = 1.0
    """Largest budget as a share of sizes.max_thinking_tokens."""
    phrase: str = "Okay, time is up. Let me stop thinking and formulate a final answer now. </think>"
    """What is appended; it must close the thinking."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_thinking_share > self.max_thinking_share:
            raise ValueError("min_thinking_share is above max_thinking_share")
        return self


class LengthPenalty(Option):
    """Eq. 9, added to correct traces only: clip((L_max - |y|) / L_cache - 1, -1, 0)."""

    kind: Literal["length_penalty"] = "length_penalty"
    max_share: Share = 1.0
    """L_max as a share of the most tokens a completion may have (14k of 14,336 in the source's setting)."""
    cache_share: Share = 1 / 7
    """L_cache as a share of the most tokens a completion may have (2k of 14,336)."""


class NoLengthControl(Option):
    """Nothing but the hard limit."""

    kind: Literal["none"] = "none"


# KL term


class NoKl(Option):
    """No KL term (the source's setting)."""

    kind: Literal["none"] = "none"


class ReferenceKl(Option):
    """coefficient x KL estimate to the reference model, added to every token's loss (GRPO)."""

    kind: Literal["reference"] = "reference"
    coefficient: Positive = 0.04
    """Weight of the term; 0.04 in GRPO's paper."""
    estimator: Literal["k1", "k2", "k3"] = "k3"
    """k1: -log r; k2: (log r)^2 / 2; k3: r - 1 - log r, where r = pi_reference / pi_train."""


# the axes as fields of a recipe

Schedule = Annotated[PpoOffPolicy | Pipeline, Field(discriminator="kind")]
Loss = Annotated[Cispo | Clip | Gspo | CustomLoss, Field(discriminator="kind")]
Advantage = Annotated[GroupAdvantage | CustomAdvantage, Field(discriminator="kind")]
Reward = Annotated[VerifierReward | CustomReward, Field(discriminator="kind")]
Curriculum = Annotated[Uniform | NoPositiveResampling | CustomCurriculum, Field(discriminator="kind")]
LengthControl = Annotated[Interruption | LengthPenalty | NoLengthControl, Field(discriminator="kind")]
Kl = Annotated[NoKl | ReferenceKl, Field(discriminator="kind")]
