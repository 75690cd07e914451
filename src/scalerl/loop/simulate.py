"""The clock alone, without learning: what a schedule makes of a cluster, before anyone reserves it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean, pstdev
from typing import Any

from scalerl.errors import UserError
from scalerl.loop.clock import Clock, Observer
from scalerl.loop.lengths import LogNormalLengths, SyntheticContent
from scalerl.loop.profile import SHARES, Profile
from scalerl.loop.readings import ClockStep
from scalerl.loop.schedule import build_schedule
from scalerl.recipe import axes

NAMES = {"pipeline": "PipelineRL", "ppo_off_policy": "PPO-off-policy"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run of the clock: a cluster, a schedule and what it generates.

    `steps` trainer steps are measured, after a start of at least 16 and 2 k steps that isn't; both are
    rounded up to whole turns of k.
    """

    profile: Profile
    schedule: axes.Schedule
    lengths: LogNormalLengths
    prompts_per_step: int = 48
    generations_per_prompt: int = 16
    prompt_tokens: int = 256
    steps: int = 64
    seed: int = 0

    @property
    def label(self) -> str:
        """The schedule's name, as PipelineRL-8."""
        return f"{NAMES[self.schedule.kind]}-{self.schedule.k}"

    def with_k(self, k: int) -> Scenario:
        """The same with another off-policy bound."""
        return replace(self, schedule=self.schedule.model_copy(update={"k": k}))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was measured. Shares are of reserved device time; times are the simulated cluster's."""

    schedule: str
    generators: int
    trainers: int
    steps: int
    seconds_per_step: float
    steps_per_device_hour: float
    idle_share: float
    """Of all devices."""
    generator_idle_share: float
    trainer_idle_share: float
    slot_share: float
    """Share of the generators' slots that decode, averaged over time."""
    tokens_per_second: float
    staleness_mean: float
    staleness_max: int
    training_seconds_per_step: float
    mean_length: float
    """Of the completions, as cut off."""
    length_cv: float
    simulated_hours: float
    """From the start, the part that isn't measured included."""

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers under stable names."""
        return asdict(self)


def simulate(scenario: Scenario, observer: Observer | None = None) -> Outcome:
    """Run the clock over one scenario."""
    content = SyntheticContent(
        scenario.lengths,
        generators=scenario.profile.generators,
        prompt_tokens=scenario.prompt_tokens,
        generations_per_prompt=scenario.generations_per_prompt,
        seed=scenario.seed,
    )
    schedule = build_schedule(scenario.schedule, scenario.prompts_per_step)
    clock = Clock(scenario.profile, schedule, content, observer=observer)
    k = schedule.k
    for _ in range(k * math.ceil(max(16, 2 * k) / k)):
        start = clock.advance()
    measured = [clock.advance() for _ in range(k * math.ceil(scenario.steps / k))]
    return _outcome(scenario, start, measured, content.lengths_seen)


def _outcome(scenario: Scenario, start: ClockStep, steps: Sequence[ClockStep], lengths: list[int]) -> Outcome:
    profile, last = scenario.profile, steps[-1]
    seconds = last.seconds - start.seconds
    generator_idle = last.generator_idle_seconds - start.generator_idle_seconds
    trainer_idle = last.trainer_idle_seconds - start.trainer_idle_seconds
    staleness = [age for step in steps for age in step.staleness]
    mean_length = fmean(lengths)
    return Outcome(
        schedule=scenario.label,
        generators=profile.generators,
        trainers=profile.trainers,
        steps=len(steps),
        seconds_per_step=seconds / len(steps),
        steps_per_device_hour=len(steps) / (last.device_hours - start.device_hours),
        idle_share=(generator_idle + trainer_idle) / (profile.devices * seconds),
        generator_idle_share=generator_idle / (profile.generators * seconds),
        trainer_idle_share=trainer_idle / (profile.trainers * seconds),
        slot_share=(last.slot_seconds - start.slot_seconds)
        / (profile.generators * profile.slots_per_generator * seconds),
        tokens_per_second=(last.tokens - start.tokens) / seconds,
        staleness_mean=fmean(staleness),
        staleness_max=max(staleness),
        training_seconds_per_step=fmean(step.training_seconds for step in steps),
        mean_length=mean_length,
        length_cv=pstdev(lengths, mean_length) / mean_length,
        simulated_hours=last.seconds / 3600.0,
    )


def splits(scenario: Scenario) -> list[Scenario]:
    """The same devices split otherwise between generators and trainers, from few trainers to half."""
    total = scenario.profile.devices
    if total < 2:
        raise UserError(f"profile {scenario.profile.name}: a split needs at least two devices")
    shares = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
    counts = sorted({max(1, round(share * total)) for share in shares} | {scenario.profile.trainers})
    return [_split(scenario, trainers) for trainers in counts]


def _split(scenario: Scenario, trainers: int) -> Scenario:
    update = {"trainers": trainers, "generators": scenario.profile.devices - trainers}
    return replace(scenario, profile=scenario.profile.model_copy(update=update))


def scaled(scenario: Scenario, figure: str, factor: float) -> Scenario:
    """The same with one figure of the profile multiplied; shares stop at 1, slots at one."""
    value = getattr(scenario.profile, figure) * factor
    if figure in SHARES:
        value = min(1.0, value)
    if figure == "slots_per_generator":
        value = max(1, round(value))
    return replace(scenario, profile=scenario.profile.with_figure(figure, value))


@dataclass(frozen=True, slots=True)
class Claim:
    """The source's claim on efficiency, as measured: PPO-off-policy-k idles more, PipelineRL-k steps more."""

    pipeline: Outcome
    ppo: Outcome

    @property
    def ppo_idles_more(self) -> bool:
        """Whether PPO-off-policy-k leaves a larger share of all device time idle."""
        return self.ppo.idle_share > self.pipeline.idle_share

    @property
    def pipeline_steps_more(self) -> bool:
        """Whether PipelineRL-k makes more trainer steps per device-hour."""
        return self.speedup > 1.0

    @property
    def speedup(self) -> float:
        """Trainer steps per device-hour, PipelineRL over PPO-off-policy."""
        return self.pipeline.steps_per_device_hour / self.ppo.steps_per_device_hour


def check_claim(scenario: Scenario, k: int) -> Claim:
    """Run both schedules with the same k on the scenario's cluster."""
    pipeline = replace(scenario, schedule=axes.Pipeline(k=k))
    ppo = replace(scenario, schedule=axes.PpoOffPolicy(k=k))
    return Claim(simulate(pipeline), simulate(ppo))
