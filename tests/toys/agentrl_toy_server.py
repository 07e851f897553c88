"""A server of the package openenv: a number to guess. Started with a port."""

from __future__ import annotations

import random
import sys

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Guess(Action):
    """Guess the number."""

    number: int


class Hint(Observation):
    """Where the number is."""

    hint: str


class Number(Environment):
    """A number that the seed decides."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **more):
        """Hide it."""
        self.number = random.Random(seed).randint(1, 100)
        return Hint(hint="Guess.")

    def step(self, action, **more):
        """Compare."""
        done = action.number == self.number
        said = "higher" if action.number < self.number else "lower"
        return Hint(hint="yes" if done else said, done=done, reward=float(done))

    @property
    def state(self):
        """Nothing to tell."""
        return State()


if __name__ == "__main__":
    app = create_app(Number, Guess, Hint, env_name="number", max_concurrent_envs=16)
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
