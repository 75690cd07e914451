"""The simulated clock: a discrete-event simulation of generators and a trainer under a schedule.

One core serves the simulation without learning (`lengths.py`: lengths drawn from a distribution) and the
learning run (`simulated.py`: the real engine's completions); what is decoded, judged and trained is behind
`Content`. Time follows decoding, never the reverse, and wall time never enters: the same content gives the
same order of events.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import Any

from scalerl.loop.content import Content
from scalerl.loop.device import Device, Meter
from scalerl.loop.profile import Profile
from scalerl.loop.readings import ClockStep
from scalerl.loop.roofline import (
    boundaries_before,
    decode_seconds,
    prefill_seconds,
    training_seconds,
    transfer_seconds,
)
from scalerl.loop.schedule import Schedule

# Kinds of event, in the order in which they are handled at one time: what has arrived is known before a
# device goes on.
ARRIVED, JUDGED, TRAINED, BOUNDARY = range(4)

Observer = Callable[[str, int, float, float, int], None]
"""Called with (side, number, from, until, completions or groups at work) for each stretch of work."""


class Clock:
    """Runs the events of one profile, schedule and content.

    One token of the content stands for `tokens_per_token` simulated ones: a boundary comes after that many
    decode steps. A group lives on one device, the one with the most room when it is admitted (ties: the
    lowest number); its members take slots as they come free, and its prompt is read once for each version
    that it starts under.
    """

    def __init__(
        self,
        profile: Profile,
        schedule: Schedule,
        content: Content,
        *,
        tokens_per_token: int = 1,
        recompute_kv_on_update: bool = False,
        observer: Observer | None = None,
    ) -> None:
        self.profile, self.schedule, self.content = profile, schedule, content
        self.now = 0.0
        self.ledger = content.ledger
        self._stride = tokens_per_token
        self._recompute = recompute_kv_on_update
        self._observer = observer
        self._devices = [Device(number, profile.slots_per_generator) for number in range(profile.generators)]
        self._more_than_fits = profile.generators * profile.slots_per_generator + 1
        self._trainer = Meter()
        self._events: list[tuple[float, int, int, int]] = []  # time, kind, id, serial of a boundary
        self._arrived = 0
        self._closed = False  # the schedule said no, and nothing has changed since
        self._unfinished: dict[int, int] = {}  # group -> members not finished
        self._prompts: dict[int, int] = {}  # group -> prompt tokens (simulated)
        self._training_seconds = 0.0
        self._tokens = 0

    def advance(self) -> ClockStep:
        """Handle events up to and including the end of the next trainer step."""
        while True:
            if not self._events:
                self._admit()
                if not self._events:
                    raise RuntimeError(f"the schedule is stuck at version {self.ledger.version}")
            self.now, kind, number, serial = heapq.heappop(self._events)
            if kind == BOUNDARY:
                if serial == self._devices[number].event:
                    self._pass_boundary(self._devices[number])
            elif kind == JUDGED:
                self._judged(number)
            elif kind == ARRIVED:
                self._weights_arrived(number)
            else:
                return self._trained()

    def state_dict(self) -> dict[str, Any]:
        """The clock between two events, as plain lists and numbers for JSON; the content keeps its own."""
        return {
            "now": self.now,
            "devices": [device.state_dict() for device in self._devices],
            "trainer": self._trainer.state_dict(),
            "events": [list(event) for event in self._events],
            "arrived": self._arrived,
            "closed": self._closed,
            "unfinished": [list(item) for item in self._unfinished.items()],
            "prompts": [list(item) for item in self._prompts.items()],
            "training_seconds": self._training_seconds,
            "tokens": self._tokens,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave, into a clock made alike."""
        self.now = state["now"]
        self._devices = [Device.from_state(device) for device in state["devices"]]
        self._trainer = Meter(**state["trainer"])
        self._events = [(time, kind, number, serial) for time, kind, number, serial in state["events"]]
        self._arrived, self._closed = state["arrived"], state["closed"]
        self._unfinished = dict(state["unfinished"])
        self._prompts = dict(state["prompts"])
        self._training_seconds, self._tokens = state["training_seconds"], state["tokens"]

    def _pass_boundary(self, device: Device) -> None:
        """A chunk ends (or an idle device wakes): members leave, others start, the next chunk begins."""
        if device.in_chunk:
            self._end_chunk(device)
        overhead = 0.0
        if device.version != self._arrived:
            device.version = self._arrived
            if self._recompute:
                overhead += prefill_seconds(self.profile, device.context)
        self._admit(at_boundary=device)
        overhead += self._start_waiting(device)
        if device.active:
            self._begin_chunk(device, overhead)

    def _end_chunk(self, device: Device) -> None:
        device.switch(self.now, working=False)
        device.in_chunk = False
        if self._observer:
            self._observer("generator", device.number, device.chunk_start, self.now, len(device.active))
        passed = device.chunk_boundaries
        device.boundary += passed
        grown = passed * self._stride * len(device.active)
        device.context += grown
        self._tokens += grown
        for member in self.content.stop(device.number, passed):
            tokens = (device.boundary - device.active.pop(member)) * self._stride
            device.context -= self._prompts[member[0]] + tokens
            self._finished(member[0])

    def _finished(self, group: int) -> None:
        self._unfinished[group] -= 1
        if not self._unfinished[group]:
            del self._unfinished[group], self._prompts[group]
            self._push(self.now + self.profile.verification_seconds, JUDGED, group)

    def _begin_chunk(self, device: Device, overhead: float) -> None:
        device.chunk_boundaries = self.content.run(device.number)
        device.chunk_start = self.now + overhead
        device.in_chunk = True
        device.switch(self.now, working=True)
        self._push_boundary(device)

    def _push_boundary(self, device: Device) -> None:
        steps = device.chunk_boundaries * self._stride
        seconds = decode_seconds(self.profile, len(device.active), device.context, steps)
        device.event += 1
        # A boundary that an interruption finds may lie a rounding error before it: time doesn't run
        # backwards.
        self._push(max(self.now, device.chunk_start + seconds), BOUNDARY, device.number, device.event)

    def _interrupt(self, device: Device) -> None:
        """Something is new for a device in a chunk: it stops at its first boundary from now on.

        The chunk's first step is under way, be it still in its prefill: that boundary has passed.
        """
        boundaries = boundaries_before(
            self.profile,
            len(device.active),
            device.context,
            self.now - device.chunk_start,
            device.chunk_boundaries,
            self._stride,
        )
        boundaries = max(1, boundaries)
        if boundaries < device.chunk_boundaries:
            device.chunk_boundaries = boundaries
            self._push_boundary(device)

    def _start_waiting(self, device: Device) -> float:
        """Waiting members take free slots; returns the seconds of prefill that this costs."""
        count = min(len(device.waiting), device.slots - len(device.active))
        if count <= 0:
            return 0.0
        starting = [device.waiting.popleft() for _ in range(count)]
        read = 0
        for member in starting:
            group = member[0]
            if device.prefixes.get(group) != device.version:
                device.prefixes[group] = device.version
                read += self._prompts[group]
            device.active[member] = device.boundary
            device.context += self._prompts[group]
        still = {group for group, _ in device.waiting}
        device.prefixes = {group: v for group, v in device.prefixes.items() if group in still}
        self.content.start(device.number, starting)
        return prefill_seconds(self.profile, read)

    def _admit(self, at_boundary: Device | None = None) -> None:
        """Admit as many groups as the schedule allows, each to the device with the most room."""
        if self._closed or (at_boundary is not None and at_boundary.room < 1):
            return
        ranked = [(-device.room, device.number) for device in self._devices if device.room >= 1]
        if not ranked:
            return
        heapq.heapify(ranked)
        allowed = self.schedule.groups_to_admit(self.ledger, self._more_than_fits, self._arrived)
        while allowed and ranked:
            device = self._devices[ranked[0][1]]
            self._admit_to(device, at_boundary)
            allowed -= 1
            if device.room >= 1:
                heapq.heapreplace(ranked, (-device.room, device.number))
            else:
                heapq.heappop(ranked)
        self._closed = not allowed

    def _admit_to(self, device: Device, at_boundary: Device | None) -> None:
        group, prompt_tokens, completions = self.content.admit(self._arrived)
        self._prompts[group] = prompt_tokens * self._stride
        self._unfinished[group] = completions
        device.waiting.extend((group, sample) for sample in range(completions))
        if device is at_boundary:
            return
        if device.in_chunk:
            self._interrupt(device)
        else:
            device.event += 1
            self._push(self.now, BOUNDARY, device.number, device.event)

    def _judged(self, group: int) -> None:
        self.content.judge(group)
        if group in self.ledger.finished:
            self._try_step()
        else:
            self._reopen()

    def _try_step(self) -> None:
        batch = self.schedule.next_batch(self.ledger)
        if batch is None:
            return
        tokens = self.content.begin_step(batch) * self._stride
        self._training_seconds = training_seconds(self.profile, tokens)
        self._trainer.switch(self.now, working=True)
        self._push(self.now + self._training_seconds, TRAINED, self.ledger.version)

    def _trained(self) -> ClockStep:
        self._trainer.switch(self.now, working=False)
        if self._observer:
            start, groups = self.now - self._training_seconds, len(self.ledger.training)
            self._observer("trainer", 0, start, self.now, groups)
        reading = self._reading()
        self.content.end_step(reading)
        if self.schedule.publishes_after(reading.step):
            self.content.publish(reading.step)
            self._push(self.now + transfer_seconds(self.profile), ARRIVED, reading.step)
        self._try_step()
        self._reopen()
        return reading

    def _weights_arrived(self, version: int) -> None:
        self._arrived = version
        for device in self._devices:
            if device.in_chunk:
                self._interrupt(device)
        self.content.take_weights(version)
        self._reopen()

    def _reopen(self) -> None:
        self._closed = False
        self._admit()

    def _reading(self) -> ClockStep:
        self._trainer.read(self.now)
        for device in self._devices:
            device.read(self.now)
        trainers = self.profile.trainers
        return ClockStep(
            step=self.ledger.version + 1,
            seconds=self.now,
            device_hours=self.now * self.profile.devices / 3600.0,
            generator_busy_seconds=sum(device.meter.busy for device in self._devices),
            generator_idle_seconds=sum(device.meter.idle for device in self._devices),
            slot_seconds=sum(device.slot_seconds for device in self._devices),
            trainer_busy_seconds=self._trainer.busy * trainers,
            trainer_idle_seconds=self._trainer.idle * trainers,
            staleness=self.ledger.staleness(),
            training_seconds=self._training_seconds,
            tokens=self._tokens,
        )

    def _push(self, time: float, kind: int, number: int, serial: int = 0) -> None:
        heapq.heappush(self._events, (time, kind, number, serial))
