"""What engines count, as differences in a step's row."""

from __future__ import annotations

import pytest

from agentrl.engines.scripted import ScriptedEngine
from agentrl.engines.transformers import TransformersEngine
from agentrl.engines.vllm_core import COUNTED
from agentrl.metrics import METRICS, engine_part
from tests.doubles import ReadableTokenizer
from tests.models import llama


def test_a_row_has_what_was_counted_since_the_step_began():
    before = {"requests": 4, "prompt_tokens": 100, "cached_tokens": 60}
    now = {"requests": 10, "prompt_tokens": 300, "cached_tokens": 210}
    assert engine_part(before, now) == {
        "engine/requests": 6,
        "engine/prompt_tokens": 200,
        "engine/cached_tokens": 150,
        "engine/prefix_hits": 0.75,
    }


def test_a_count_that_was_not_there_before_began_at_nothing():
    assert engine_part({}, {"retries": 3}) == {"engine/retries": 3}


@pytest.mark.parametrize("now", [{}, {"prompt_tokens": 0, "cached_tokens": 0}])
def test_where_nothing_was_asked_there_is_no_share_of_hits(now):
    assert "engine/prefix_hits" not in engine_part({}, now)


def test_every_count_of_an_engine_has_a_name_among_the_metrics():
    scripted = ScriptedEngine(ReadableTokenizer(), lambda request: "")
    played = TransformersEngine(llama(), max_context=64, max_live=1)
    counted = {*COUNTED, *scripted.counters(), *played.counters()}
    assert {f"engine/{name}" for name in counted} <= METRICS.keys()
