"""A generator that is made late is the one that gymnasium makes at once."""

from __future__ import annotations

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.seeding import np_random
from hypothesis import given
from hypothesis import strategies as st

from agentrl.env import ToolEnv
from agentrl.task import Task

HERE = {"task": Task("What is 1 + 1?", "2")}


def begun(seed, env=None):
    env = env or ToolEnv()
    env.reset(seed=seed, options=HERE)
    env.close()
    return env


def drawn(env):
    return env.np_random.integers(1 << 60, size=4).tolist()


@given(st.integers(0, 1 << 200))
def test_the_stream_and_the_seed_are_gymnasiums(seed):
    generator, kept = np_random(seed)
    env = begun(seed)
    assert env.np_random_seed == kept == seed
    assert drawn(env) == generator.integers(1 << 60, size=4).tolist()
    assert env.np_random_seed == seed


@pytest.mark.parametrize("seed", [-1, 1.5, "1", np.int64(3)])
def test_a_seed_that_gymnasium_refuses_is_refused_by_reset(seed):
    env = ToolEnv()
    with pytest.raises(gymnasium.error.Error, match="Seed must be"):
        env.reset(seed=seed, options=HERE)
    env.close()


def test_a_reset_without_a_seed_goes_on_with_the_stream():
    generator, _ = np_random(5)
    env = begun(5)
    first = drawn(env)
    again = drawn(begun(None, env))
    assert first + again == generator.integers(1 << 60, size=8).tolist()
    assert drawn(begun(None, begun(5))) == first


def test_without_any_seed_each_instance_draws_its_own_and_tells_it():
    env, other = begun(None), begun(None)
    assert env.np_random_seed != other.np_random_seed
    assert drawn(env) == np_random(env.np_random_seed)[0].integers(1 << 60, size=4).tolist()


def test_a_generator_that_is_set_takes_the_place_of_a_seed():
    env = begun(5)
    env.np_random = np.random.default_rng(7)
    assert env.np_random_seed == -1
    assert drawn(env) == np.random.default_rng(7).integers(1 << 60, size=4).tolist()


def test_a_copy_draws_what_the_instance_draws():
    env = begun(5)
    copies = [copy.deepcopy(env._np_random), pickle.loads(pickle.dumps(env.np_random))]
    assert [c.integers(9, size=20).tolist() for c in copies] == [
        env.np_random.integers(9, size=20).tolist()
    ] * 2
