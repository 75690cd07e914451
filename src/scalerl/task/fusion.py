"""SandboxFusion as the runner of programs: its HTTP call `run_code`, for clusters that have the service."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from scalerl.errors import UserError
from scalerl.task.sandbox_command import Limits
from scalerl.task.watchdog import SandboxResult

_SLACK_SECONDS = 30.0


class FusionRunner:
    """Runs programs on a SandboxFusion server at `url`; one that can't be reached is a failed sandbox."""

    def __init__(self, url: str) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise UserError(
                f"fusion_url={url!r}: give an http:// or https:// address, such as http://host:8080"
            )
        self.url = url.rstrip("/") + "/run_code"

    def run(self, code: str, stdin: bytes, limits: Limits) -> SandboxResult:
        """Run one program (see ProgramRunner); the server's memory and process limits are its own."""
        started = time.monotonic()
        body = {
            "code": code,
            "stdin": stdin.decode("utf-8", "replace"),
            "language": "python",
            "run_timeout": limits.cpu_seconds,
            "memory_limit_MB": limits.memory_bytes >> 20,
        }
        try:
            reply = self._post(body, limits.wall_seconds + _SLACK_SECONDS)
            return _result(reply, limits, time.monotonic() - started)
        except (OSError, ValueError, KeyError, TypeError, urllib.error.URLError):
            return SandboxResult("failed", None, b"", time.monotonic() - started)

    def _post(self, body: dict[str, Any], timeout_seconds: float) -> dict[str, Any]:
        request = urllib.request.Request(
            self.url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=timeout_seconds) as response:
            reply: dict[str, Any] = json.load(response)
        return reply


def _result(reply: dict[str, Any], limits: Limits, seconds: float) -> SandboxResult:
    """Translate a RunCodeResponse: its `status` is the service's, `run_result.status` the program's."""
    if reply["status"] == "SandboxError":
        return SandboxResult("failed", None, b"", seconds)
    run = reply["run_result"]
    output = str(run.get("stdout") or "").encode("utf-8", "replace")
    if run["status"] == "TimeLimitExceeded":
        return SandboxResult("wall", None, output, seconds)
    if len(output) > limits.output_bytes:
        return SandboxResult("output", None, output[: limits.output_bytes], seconds)
    status = run.get("return_code")
    return SandboxResult("exited", 1 if status is None else int(status), output, seconds)
