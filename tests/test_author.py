"""Author code in threads and tasks: nothing it does holds up the loop or escapes as a surprise."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from contextlib import suppress

import pytest

from agentrl.author import TooSlow, at_once, inherited, run_author
from agentrl.errors import EnvironmentFault
from agentrl.workers import Workers


class Rude(BaseException):
    """Not even an Exception."""


class Mute(Exception):
    """Its message can't be had."""

    def __str__(self):
        raise ValueError("no words")


ANYTHING = [
    ValueError("no"),
    StopIteration(1),
    StopAsyncIteration(),
    ExceptionGroup("several", [ValueError("a"), KeyError("b")]),
    TimeoutError("its own"),
    asyncio.InvalidStateError(),
]
RUDE = [
    SystemExit(3),
    Rude("rude"),
    GeneratorExit(),
    BaseExceptionGroup("several", [Rude(), ValueError("a")]),
]


def both(error):
    """A sync and an async function that raise it."""

    def sync():
        raise error

    async def later():
        raise error

    return sync, later


@pytest.mark.parametrize("error", ANYTHING, ids=repr)
def test_an_exception_comes_out_of_either_kind(error):
    # Python itself turns a StopIteration that leaves a coroutine into a RuntimeError.
    kind = RuntimeError if isinstance(error, StopIteration) else type(error)
    for fn in both(error):
        with pytest.raises(kind):
            asyncio.run(run_author(fn))


@pytest.mark.parametrize("error", RUDE, ids=repr)
def test_what_would_end_the_program_comes_out_as_an_error_that_says_so(error):
    for fn in both(error):
        with pytest.raises(RuntimeError, match=f"end the program with {type(error).__name__}"):
            asyncio.run(run_author(fn))


def test_a_keyboard_interrupt_passes_only_where_it_may_be_a_persons():
    sync, later = both(KeyboardInterrupt())
    with pytest.raises(RuntimeError, match="KeyboardInterrupt"):
        asyncio.run(run_author(sync))
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run_author(later))
    seen = []

    def elsewhere():
        with pytest.raises(RuntimeError, match="KeyboardInterrupt"):
            asyncio.run(run_author(later))
        seen.append("told")

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == ["told"]


def test_a_coroutine_that_swallows_its_cancellation_once_is_too_slow_all_the_same():
    log = []

    async def stubborn():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            log.append("swallowed")
        return "late"

    with pytest.raises(TooSlow):
        asyncio.run(run_author(stubborn, seconds=0.01))
    assert log == ["swallowed"]


def test_a_coroutine_that_swallows_every_cancellation_is_closed_and_the_loop_can_end():
    log = []

    async def never():
        try:
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    log.append("swallowed")
        finally:
            log.append("closed")

    with pytest.raises(TooSlow):
        asyncio.run(run_author(never, seconds=0.01))
    assert log == ["swallowed", "closed"]


# Python itself complains of such a coroutine when it is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_coroutine_that_will_not_even_be_closed_is_dropped(caplog):
    async def worst():
        while True:
            with suppress(BaseException):
                await asyncio.sleep(60)

    async def main():
        with pytest.raises(TooSlow):
            await run_author(worst, seconds=0.01)
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(main()) == set()
    assert caplog.records == []


def test_a_cancelled_caller_stays_cancelled_and_leaves_no_task_behind():
    log = []

    async def slow():
        try:
            await asyncio.sleep(60)
        finally:
            log.append("tidied")

    async def main():
        caller = asyncio.create_task(run_author(slow))
        await asyncio.sleep(0.01)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(main()) == set()
    assert log == ["tidied"]


def test_a_sync_function_may_return_a_coroutine_that_counts_against_the_same_limit():
    async def slow():
        await asyncio.sleep(60)

    with pytest.raises(TooSlow):
        asyncio.run(run_author(lambda: slow(), seconds=0.01))


def test_threads_are_used_again():
    seen = set()

    async def main():
        pool = Workers()
        for _ in range(20):
            seen.add(await pool.run(threading.get_ident))
            await asyncio.sleep(0.002)

    asyncio.run(main())
    assert len(seen) < 5


@pytest.mark.parametrize("count", [1, 256])
def test_as_many_run_at_once_as_there_is_work(count):
    meeting = threading.Barrier(count)

    async def main():
        pool = Workers()
        return await asyncio.gather(*(pool.run(lambda: meeting.wait(30)) for _ in range(count)))

    assert sorted(asyncio.run(main())) == list(range(count))


def test_work_that_hangs_keeps_no_other_waiting():
    release = threading.Event()

    async def main():
        pool = Workers()
        for _ in range(50):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(pool.run(release.wait), 0.001)
        return await pool.run(lambda: "done")

    assert asyncio.run(main()) == "done"
    release.set()


def test_threads_that_are_left_behind_are_bounded_and_counted_down_when_they_come_back():
    release = threading.Event()

    async def main():
        pool = Workers(most_left=3)
        for _ in range(3):
            waiting = asyncio.create_task(pool.run(release.wait))
            await asyncio.sleep(0.01)
            waiting.cancel()
            await asyncio.wait({waiting})
        assert pool.left == 3
        with pytest.raises(EnvironmentFault, match="3 threads of tools run on"):
            await pool.run(lambda: "never run")
        release.set()
        while pool.left:
            await asyncio.sleep(0.001)
        return await pool.run(lambda: "again")

    assert asyncio.run(main()) == "again"


def test_work_whose_caller_left_before_it_began_is_not_begun():
    async def main():
        pool, log = Workers(), []
        waiting = asyncio.create_task(pool.run(lambda: log.append("ran")))
        waiting.cancel()
        await asyncio.wait({waiting})
        await pool.run(lambda: None)
        return pool.left, log

    assert asyncio.run(main()) == (0, [])


def test_idle_threads_end_and_later_work_starts_others():
    async def main():
        pool = Workers(idle=0.01)
        first = await pool.run(threading.current_thread)
        while first.is_alive():
            await asyncio.sleep(0.01)
        return await pool.run(lambda: "later")

    assert asyncio.run(main()) == "later"


def test_workers_under_a_storm_of_expiring_threads_lose_no_work():
    async def main():
        pool = Workers(idle=0.0005)
        total = 0
        for wave in range(60):
            total += sum(await asyncio.gather(*(pool.run(lambda: 1) for _ in range(wave % 7))))
            await asyncio.sleep(0.0005)
        return total

    assert asyncio.run(asyncio.wait_for(main(), 60)) == sum(wave % 7 for wave in range(60))


def test_the_loop_goes_on_while_work_blocks():
    async def main():
        ticks = 0
        work = asyncio.gather(*(run_author(time.sleep, 0.2) for _ in range(64)))
        while not work.done():
            ticks += 1
            await asyncio.sleep(0.005)
        return ticks

    assert asyncio.run(main()) > 5


def test_threads_see_the_context_of_their_caller_and_change_only_a_copy():
    where = contextvars.ContextVar("where", default="nowhere")

    def look(name):
        before = where.get()
        where.set(name)
        return before

    async def main():
        where.set("here")
        return [await run_author(look, "there") for _ in range(2)], where.get()

    assert asyncio.run(main()) == (["here", "here"], "here")


class Base:
    """With a method that does nothing."""

    def start(self):
        """Nothing."""


class Heir(Base):
    """As it is."""


class Own(Base):
    """With one of its own."""

    def start(self):
        """Something."""


def test_a_method_that_only_the_base_has_is_known_as_such():
    changed = Heir()
    changed.start = lambda: None
    assert inherited(Heir().start, Base)
    assert not inherited(Heir().start, Own)
    assert not inherited(Own().start, Base)
    assert not inherited(changed.start, Base)


class Sorter:
    """Sorts, a little at once."""

    @at_once(lambda items: len(items) < 3)
    def sort(self, items):
        return sorted(items), threading.current_thread()


class Slower(Sorter):
    """One that says nothing of how long it takes."""

    def sort(self, items):
        return super().sort(items)


def test_what_is_done_at_once_needs_no_thread_and_all_else_has_one():
    def where(sorter, items):
        found, thread = asyncio.run(run_author(sorter.sort, items))
        assert found == sorted(items)
        return thread is threading.current_thread()

    assert where(Sorter(), [2, 1])
    assert not where(Sorter(), [3, 2, 1])
    assert not where(Slower(), [2, 1])
