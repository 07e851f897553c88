"""What was begun comes to its end, though who waits is cancelled again and again."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agentrl.unbroken import unbroken


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_it_gives_what_the_work_gives_and_raises_what_it_raises() -> None:
    async def fine() -> int:
        return 3

    async def broken() -> int:
        raise ValueError("no")

    assert asyncio.run(unbroken(fine())) == 3
    with pytest.raises(ValueError, match="no"):
        asyncio.run(unbroken(broken()))


def test_cancelled_many_times_the_work_is_still_done_before_the_cancellation_goes_on() -> None:
    async def story() -> list[str]:
        said: list[str] = []
        go_on = asyncio.Event()

        async def work() -> None:
            await go_on.wait()
            said.append("done")

        async def waiting() -> None:
            try:
                await unbroken(work())
            except asyncio.CancelledError:
                said.append("cancelled")
                raise

        task = asyncio.ensure_future(waiting())
        await settle()
        for _ in range(3):
            task.cancel()
            await settle()
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return said

    assert asyncio.run(story()) == ["done", "cancelled"]


def test_a_thread_is_waited_for() -> None:
    async def story() -> bool:
        gate, done = threading.Event(), threading.Event()

        def work() -> None:
            gate.wait(20)
            done.set()

        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(unbroken(loop.run_in_executor(None, work)))
        await settle()
        task.cancel()
        await settle()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return done.is_set()

    assert asyncio.run(story())


def test_work_that_never_ends_is_given_up_after_its_grace() -> None:
    async def story() -> bool:
        gone = []

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                gone.append(True)
                raise

        task = asyncio.ensure_future(unbroken(work(), grace=0.01))
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await settle()
        return gone == [True]

    assert asyncio.run(story())


def test_what_breaks_after_a_cancellation_is_no_warning() -> None:
    async def story() -> None:
        go_on = asyncio.Event()

        async def work() -> None:
            await go_on.wait()
            raise ValueError("no")

        task = asyncio.ensure_future(unbroken(work()))
        await settle()
        task.cancel()
        await settle()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
