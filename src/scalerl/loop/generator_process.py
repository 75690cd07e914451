"""The generator as a process of its own: an engine that decodes, and answers messages between steps.

Messages to it, handled in order: ("submit", requests), ("weights", version), ("state",),
("load", state, version), ("stop",). From it: ("completions", list), ("loaded", version), ("state", state).
"""

from __future__ import annotations

from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from torch import Tensor

from scalerl.generate.torch_engine import TorchEngine
from scalerl.loop.config import RunConfig
from scalerl.loop.setup import build_engine, model_folder, set_threads
from scalerl.policy.load import load_policy
from scalerl.task.build import build_prompter

Message = tuple[Any, ...]


def generate(config: RunConfig, channel: Connection, shared: Mapping[str, Tensor]) -> None:
    """Serve until told to stop or until the trainer's end of the channel is gone.

    shared: the weights, in memory that both processes see; they are read when a message says so, and the
    answer ("loaded", version) tells the trainer that it may write them again.
    """
    set_threads(config)
    folder = model_folder(config)
    policy = load_policy(folder, config.engine.generator_device or config.device, config.dtype)
    engine = build_engine(config, policy, build_prompter(config.task, folder))
    try:
        while _answer(engine, channel, shared):
            completions = engine.step()
            if completions:
                channel.send(("completions", completions))
    except (EOFError, BrokenPipeError):
        return


def _answer(engine: TorchEngine, channel: Connection, shared: Mapping[str, Tensor]) -> bool:
    """Take all messages that are there, waiting for one when there is nothing to decode; False: stop."""
    while channel.poll() or not (engine.active or engine.queued):
        kind, *rest = channel.recv()
        if kind == "stop":
            return False
        if kind == "submit":
            engine.submit(rest[0])
        elif kind == "weights":
            engine.load_weights(shared, rest[0])
            channel.send(("loaded", rest[0]))
        elif kind == "state":
            channel.send(("state", engine.state_dict()))
        elif kind == "load":
            engine.load_weights(shared, rest[1])
            engine.load_state_dict(rest[0])
            channel.send(("loaded", rest[1]))
        else:
            raise ValueError(f"message {kind!r}")
    return True
