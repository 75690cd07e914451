"""Two processes on one machine, at work at the same time: the trainer here, the generator beside it.

The order of events is the wall clock's, so two such runs differ; the schedule's bound holds as always.
"""

from __future__ import annotations

import queue
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

import torch.multiprocessing

from scalerl.loop.config import RunConfig
from scalerl.loop.generator_process import Message, generate
from scalerl.loop.learner import Learner, RunStopped
from scalerl.loop.save import save_if_due
from scalerl.loop.schedule import Schedule, build_schedule

_GONE: Message = ("gone",)
_PATIENCE_SECONDS = 10.0


class SplitLoop:
    """Feed the generator as the schedule allows, train on what comes back, hand weights over."""

    def __init__(self, learner: Learner, schedule: Schedule, config: RunConfig) -> None:
        self.learner = learner
        self.schedule = schedule
        self._shared = {
            name: weight.detach().cpu().clone().share_memory_()
            for name, weight in learner.trainer.policy.weights().items()
        }
        self._sent = 0  # version in shared memory; groups submitted from now on start with it
        self._loading = False  # the generator hasn't said yet that it has read them
        self._inside = 0  # completions submitted and not come back
        context = torch.multiprocessing.get_context("spawn")
        self._channel, far = context.Pipe()
        self._process = context.Process(target=generate, args=(config, far, self._shared), daemon=True)
        self._process.start()
        far.close()
        self._inbox: queue.Queue[Message] = queue.Queue()
        threading.Thread(target=_receive, args=(self._channel, self._inbox), daemon=True).start()

    def run(self) -> None:
        """Go on to the config's last step. Raises RunStopped when the run can't."""
        try:
            if self.learner.version == 0:
                self.learner.evaluate_if_due()
            while not self.learner.done:
                batch = self._next_batch()
                self.learner.train(batch)
                if self.schedule.publishes_after(self.learner.version):
                    self._publish()
                self._take_waiting()
                self._admit()  # so that the generator works while the trainer evaluates
                self.learner.evaluate_if_due()
                save_if_due(self.learner, self.state_dict)
        finally:
            self.close()

    def close(self) -> None:
        """End the generator's process."""
        if self._process.is_alive():
            try:
                self._channel.send(("stop",))
                self._process.join(_PATIENCE_SECONDS)
            except BrokenPipeError:  # it has ended meanwhile
                self._process.join()
            self._process.kill()
        self._process.join()

    def state_dict(self) -> dict[str, Any]:
        """The whole run at one moment of the generator: what it had sent before has been received."""
        self._channel.send(("state",))
        engine = self._wait_for("state")
        return {"learner": self.learner.state_dict(), "engine": engine, "shared": self._shared}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` gave; the policy must hold the weights of the same checkpoint."""
        self.learner.load_state_dict(state["learner"])
        for name, weight in state["shared"].items():
            self._shared[name].copy_(weight)
        self._sent = state["engine"]["policy_version"]
        pending = sum(len(come) for come in self.learner.assembly.pending.values())
        self._inside = sum(self.learner.assembly.sizes.values()) - pending
        self._channel.send(("load", state["engine"], self._sent))
        self._wait_for("loaded")

    def _next_batch(self) -> tuple[int, ...]:
        """Admit and receive until the schedule has a batch."""
        started = time.perf_counter()
        self._take_waiting()
        while True:
            self._admit()
            batch = self.schedule.next_batch(self.learner.ledger)
            if batch is not None:
                break
            self._handle(self._inbox.get())
        seconds = time.perf_counter() - started
        self.learner.writer.timing({"step": self.learner.version, "phase": "wait", "seconds": seconds})
        return batch

    def _admit(self) -> None:
        config = self.learner.config
        free = (config.engine.slots - self._inside) // config.recipe.sizes.generations_per_prompt
        count = self.schedule.groups_to_admit(self.learner.ledger, free, self._sent)
        if count:
            requests = self.learner.admit(count, self._sent)
            self._inside += sum(len(request.budgets) for request in requests)
            self._channel.send(("submit", requests))

    def _publish(self) -> None:
        """Write the new weights once the generator has read the last ones, and say so.

        Messages keep their order, so groups submitted afterwards start with these weights.
        """
        if self._loading:
            self._wait_for("loaded")
        for name, weight in self.learner.trainer.policy.weights().items():
            self._shared[name].copy_(weight)
        self._sent, self._loading = self.learner.version, True
        self._channel.send(("weights", self._sent))

    def _take_waiting(self) -> None:
        while not self._inbox.empty():
            self._handle(self._inbox.get())

    def _wait_for(self, kind: str) -> Any:
        """Handle messages up to the first of this kind, and return what it carries."""
        while True:
            message = self._inbox.get()
            self._handle(message)
            if message[0] == kind:
                return message[1]

    def _handle(self, message: Message) -> None:
        if message == _GONE:
            raise RunStopped(
                f"the generator's process ended (exit status {self._process.exitcode}); its error is above"
            )
        if message[0] == "completions":
            self._inside -= len(message[1])
            self.learner.receive(message[1])
        elif message[0] == "loaded":
            self._loading = False


def _receive(channel: Connection, inbox: queue.Queue[Message]) -> None:
    """Empty the channel as messages come, so that the generator never waits for the trainer."""
    try:
        while True:
            inbox.put(channel.recv())
    except (EOFError, OSError):
        inbox.put(_GONE)


def build_split_loop(config: RunConfig, learner: Learner) -> SplitLoop:
    """Start the generator's process and return the loop that feeds it."""
    schedule = build_schedule(config.recipe.schedule, config.recipe.sizes.prompts_per_step)
    return SplitLoop(learner, schedule, config)
