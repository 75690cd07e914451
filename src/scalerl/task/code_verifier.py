"""The code verifier: run a completion's program on every test; all must pass, the first failure stops.

Expected outputs never enter the sandbox: a test's input goes in, the output comes out, and the comparison
is made here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from scalerl.task.code_output import same_output, same_result
from scalerl.task.code_program import call_program, extract_program
from scalerl.task.code_tests import CodeTest, CodeTests
from scalerl.task.protocol import Example, Judgement
from scalerl.task.reward import Reward
from scalerl.task.sandbox_command import Limits
from scalerl.task.watchdog import ProgramRunner, SandboxResult


class CodeVerifier:
    """Judges programs by the tests in `example.payload["tests"]` (a CodeTests).

    A program that crashes, exceeds a limit or gives a wrong output is wrong. A sandbox that failed twice is
    a failed verification (None). `workers` programs run at a time.
    """

    def __init__(
        self,
        runner: ProgramRunner,
        *,
        reward: Reward = Reward(),
        limits: Limits = Limits(),
        workers: int | None = None,
        must_close_thinking: bool = False,
    ) -> None:
        self.runner = runner
        self.reward = reward
        self.limits = limits
        self.workers = workers or os.cpu_count() or 1
        self.must_close_thinking = must_close_thinking

    def __call__(self, examples: Sequence[Example], completions: Sequence[str]) -> list[Judgement | None]:
        """Judge `completions[i]` against the tests of `examples[i]`."""
        with ThreadPoolExecutor(self.workers, thread_name_prefix="code-verifier") as threads:
            verdicts = list(threads.map(self._judge, examples, completions))
        return [None if verdict is None else self.reward.judge(verdict) for verdict in verdicts]

    def _judge(self, example: Example, completion: str) -> bool | None:
        program = extract_program(completion, must_close_thinking=self.must_close_thinking)
        if program is None:
            return False
        tests: CodeTests = example.payload["tests"]
        for test in tests.tests:
            verdict = self._passes(program, tests.function, test)
            if verdict is not True:
                return verdict
        return True

    def _passes(self, program: str, function: str | None, test: CodeTest) -> bool | None:
        if function is None:
            result = self._run(program, test.input.encode("utf-8", "replace"))
        else:
            caller, request = call_program(program, function, json.loads(test.input))
            result = self._run(caller, json.dumps(request).encode("utf-8"))
        if result.ending == "failed":
            return None
        if result.ending != "exited" or result.exit_status != 0:
            return False
        output = result.output.decode("utf-8", "replace")
        if function is None:
            return same_output(output, test.output)
        return same_result(output, test.output, wrapped=test.wrapped)

    def _run(self, code: str, stdin: bytes) -> SandboxResult:
        """Run once; once more if it was the sandbox that failed."""
        result = self.runner.run(code, stdin, self.limits)
        return self.runner.run(code, stdin, self.limits) if result.ending == "failed" else result
