"""The pool kills, replaces and keeps order. Jobs are functions of the standard library."""

import os
import signal
import time
from pathlib import Path

import pytest

from scalerl.errors import UserError
from scalerl.task.benchmark import hanging_pool
from scalerl.task.pool import KillablePool


@pytest.fixture
def pool():
    with KillablePool(workers=2, limit_seconds=0.5) as made:
        yield made


def alive(pid):
    """Whether a process runs (a zombie doesn't)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_order_values_and_errors(pool):
    jobs = [
        ("time:sleep", (0.2,)),
        ("operator:add", (1, 2)),
        ("operator:truediv", (1, 0)),
        ("math:sqrt", (9.0,)),
    ]
    got = pool.map(jobs)
    assert [o.value for o in got] == [None, 3, None, 3.0]
    assert got[2].failure.startswith("ZeroDivisionError")
    assert pool.replaced == 0


def test_hang_is_killed_and_worker_replaced(pool):
    pids = [o.value for o in pool.map([("os:getpid", ()), ("os:getpid", ())])]
    start = time.monotonic()
    got = pool.map(
        [("time:sleep", (60,)), ("operator:add", (1, 2)), ("time:sleep", (60,)), ("operator:add", (2, 2))]
    )
    assert time.monotonic() - start < 3
    assert [o.failure for o in got] == ["timeout", None, "timeout", None]
    assert pool.replaced == 2
    assert [o.value for o in pool.map([("operator:add", (n, n)) for n in range(5)])] == [0, 2, 4, 6, 8]
    assert sum(alive(pid) for pid in pids) <= 1


def test_dead_worker_is_replaced(pool):
    assert pool.map([("os:_exit", (3,))])[0].failure == "died"
    assert pool.map([("operator:add", (1, 1))])[0].value == 2
    idle = pool.map([("os:getpid", ())])[0].value
    os.kill(idle, signal.SIGKILL)
    time.sleep(0.1)
    assert pool.map([("operator:add", (1, 1))] * 3)[0].value in (2, None)
    assert pool.map([("operator:add", (1, 1))])[0].value == 2


def test_dead_template_is_started_anew(pool):
    pool.map([("operator:add", (1, 1))])
    pool._template.kill()
    pool._template.wait()
    time.sleep(0.2)  # its workers die with it
    got = pool.map([("operator:add", (1, 1))] * 4)
    assert got[-1].value == 2


def test_template_that_cannot_start_says_so():
    with (
        KillablePool(workers=1, preload=("no_such_module",)) as pool,
        pytest.raises(UserError, match="no_such"),
    ):
        pool.map([("operator:add", (1, 1))])


def test_memory_is_capped():
    with KillablePool(workers=1, limit_seconds=5, memory_bytes=1 << 30) as pool:
        assert pool.map([("builtins:bytearray", (3 << 30,))])[0].failure.startswith("MemoryError")


def test_nothing_is_left_over():
    pool = KillablePool(workers=2, limit_seconds=0.3)
    pids = [o.value for o in pool.map([("os:getpid", ())] * 4)]
    template = pool._template.pid
    pool.close()
    time.sleep(0.3)
    assert not any(alive(pid) for pid in [*pids, template])


def test_unserialisable_value_is_a_failure_not_a_crash(pool):
    assert "JSON" in pool.map([("builtins:set", ())])[0].failure


def test_thousand_jobs_with_hangs_finish_near_the_ideal():
    got = hanging_pool(workers=2)
    assert (got.jobs, got.hanging) == (1000, 50)
    assert got.killed >= 50
    assert got.honest_done >= 945  # a starved machine may time out an honest one
    assert got.over_ideal < 1.5, got
