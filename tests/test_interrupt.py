import os
import signal

import pytest

from agentrl.interrupt import Interrupt, deaf, listening


def test_the_second_request_stops_at_once_and_a_repeat_of_the_first_does_not():
    seconds = iter([10.0, 10.2, 12.0])
    interrupt = Interrupt(now=lambda: next(seconds))
    interrupt.ask(signal.SIGINT, None)
    interrupt.ask(signal.SIGTERM, None)
    assert interrupt.asked
    with pytest.raises(KeyboardInterrupt):
        interrupt.ask(signal.SIGINT, None)


def test_signals_are_taken_over_for_a_block_and_given_back():
    before = signal.getsignal(signal.SIGTERM)
    with listening() as interrupt:
        os.kill(os.getpid(), signal.SIGTERM)
    assert interrupt.asked
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_process_that_only_helps_leaves_stopping_to_the_other():
    before = signal.getsignal(signal.SIGINT)
    with deaf():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is before
