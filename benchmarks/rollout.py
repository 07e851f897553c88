"""What playing costs: our rollout beside the bare engine, and beside episodes in lock-step.

    python benchmarks/rollout.py [--engines waves,stream,vllm] [--envs tool_math,long_log,slow]

In    a policy, environments; `slow` is tool_math whose calculator takes lognormal time
Out   a table of tokens a second; the host's time a turn; what turn 64 costs beside the first
Not   learning: nothing is updated

bare       the requests that our rollout made, of the same lengths, with no environment: an
           episode's next turn is asked for as soon as its last one is answered
ours       the same episodes, played
lockstep   one generation of all live episodes, then all tools at once, then the next turn

Arms take turns in one process; medians of ratios round by round. "in CPU" and "CPU" are the same
two ratios in CPU seconds of the whole process, waiting not counted: on a machine that is shared
they say more. The host's time is that of the thread that plays, beyond what `bare` needs of it.
Prints tables, then JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from tables import machine, show

from agentrl.engines.build import Order, build
from agentrl.engines.scripted import ScriptedEngine
from agentrl.engines.wave import Waves
from agentrl.episode import Seat, play
from agentrl.group import play_groups, seed_for
from agentrl.mixture import Mixture, mixture_of
from agentrl.policy import Completion, Engine, Request
from agentrl.render import renderer_for
from agentrl.sections import EngineSection, RolloutSection
from agentrl.tooling import tool
from agentrl.trajectory import Trajectory
from agentrl.weights import Policy, load_policy
from agentrl.world import play_of
from agentrl_environments.tool_math import ToolMath
from agentrl_tools.calculator import evaluate

Session = tuple[int, int]
MEDIAN, SPREAD, LONGEST = 0.3, 0.8, 2.0
"""Seconds of the slow calculator: lognormal, cut at the longest."""
TURNS = 64
LOG = {"tokens": 1000, "page": 500}
"""The log of long_log, short enough for two cores."""


class Slow(ToolMath):
    """Arithmetic with a calculator that thinks about it."""

    @tool(timeout=10.0)
    async def calculator(self, expression: str) -> str:
        """Evaluate arithmetic exactly."""
        wait = MEDIAN * float(np.exp(SPREAD * self.np_random.standard_normal()))
        await asyncio.sleep(min(LONGEST, wait))
        return evaluate(expression)


class Patient(ToolMath):
    """As many turns as the last measurement needs."""

    max_turns = TURNS + 1
    max_tool_calls = TURNS + 1


ENVS = {
    "tool_math": ("tool_math", {}),
    "long_log": ("long_log", LOG),
    "slow": (f"{__file__}:Slow", {}),
}


@dataclass
class Through:
    """An engine that passes everything on."""

    inner: Engine

    def __post_init__(self) -> None:
        """Look like the engine inside."""
        self.name, self.max_context = self.inner.name, self.inner.max_context
        self.max_live, self.wave = self.inner.max_live, self.inner.wave
        self.inflight = False

    @contextmanager
    def episodes(self, sessions: Sequence[Session]) -> Iterator[None]:
        """Pass on."""
        with self.inner.episodes(sessions):
            yield

    def finish(self, session: Session) -> None:
        """Pass on."""
        self.inner.finish(session)

    async def generate(self, request: Request) -> Completion:
        """Pass on."""
        return await self.inner.generate(request)

    def counters(self) -> Mapping[str, float]:
        """Pass on."""
        return self.inner.counters()


@dataclass
class Recorder(Through):
    """Keeps what was asked and answered."""

    said: dict[Session, list[tuple[Request, Completion]]] = field(default_factory=dict)

    async def generate(self, request: Request) -> Completion:
        """Pass on, and remember."""
        answer = await self.inner.generate(request)
        self.said.setdefault(request.session, []).append((request, answer))
        return answer


class Lockstep(Through):
    """All live episodes' turns at once, when every one has asked."""

    def __post_init__(self) -> None:
        """Wait for all, whatever the engine inside does."""
        super().__post_init__()
        self.wave = True
        self._waves = Waves(self._answer)

    @contextmanager
    def episodes(self, sessions: Sequence[Session]) -> Iterator[None]:
        """Declare who is waited for."""
        with self.inner.episodes(sessions), self._waves.episodes(sessions):
            yield

    def finish(self, session: Session) -> None:
        """Wait for it no longer."""
        self._waves.finish(session)
        self.inner.finish(session)

    async def generate(self, request: Request) -> Completion:
        """Wait for the others."""
        return await self._waves.ask(request)

    async def _answer(self, requests: Sequence[Request]) -> list[Completion]:
        return list(await asyncio.gather(*(self.inner.generate(r) for r in requests)))


@dataclass(frozen=True, slots=True)
class Spent:
    """What an arm took."""

    tokens: int
    turns: int
    seconds: float
    host: float
    """CPU seconds of the thread that plays."""
    cpu: float
    """CPU seconds of the process: neighbours on the machine change these little."""

    @property
    def rate(self) -> float:
        """Sampled tokens a second."""
        return self.tokens / self.seconds


def clocked(work: Coroutine[Any, Any, tuple[int, int]]) -> Spent:
    """Run one arm; it says how many tokens were sampled, in how many turns."""
    begun, host, cpu = time.perf_counter(), time.thread_time(), time.process_time()
    tokens, turns = asyncio.run(work)
    ended = time.perf_counter(), time.thread_time(), time.process_time()
    return Spent(tokens, turns, ended[0] - begun, ended[1] - host, ended[2] - cpu)


class Bench:
    """One policy and its engines."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Start what was asked for."""
        self.args = args
        self.policy = load_policy(args.model)
        self.rollout = RolloutSection(max_turn_tokens=args.turn_tokens, max_observation_tokens=2048)
        self.renderer = renderer_for(self.policy.tokenizer)
        self.engines = {name: self._engine(name) for name in args.engines.split(",")}

    def _engine(self, name: str) -> Engine:
        kind = "vllm" if name == "vllm" else "transformers"
        schedule = "waves" if name == "waves" else "stream"
        rollout = self.rollout.model_copy(update={"schedule": schedule})
        settings = EngineSection(name=kind, max_live=self.args.live)
        folder = _folder(self.policy) if kind == "vllm" else self.policy.folder
        context = self.rollout.max_context
        return build(Order(settings, self.policy, folder, context, 0, rollout=rollout))

    async def play(self, engine: Engine, env: Mixture, n: int, round_: int) -> tuple[int, int]:
        """Our rollout."""
        source = env.source("train")
        groups = await play_groups(
            env.make,
            [source[round_ * self.args.tasks + i] for i in range(self.args.tasks)],
            n=n,
            seed_of=lambda task, member: seed_for(0, round_, task.hash, member),
            world=play_of(self.rollout, engine, self.renderer, "train"),
        )
        return _counts([t for group in groups for t in group.trajectories])

    def once(self, engine: Engine, env: Mixture, n: int, round_: int) -> dict[str, Spent]:
        """All arms, on the same episodes."""
        recorder = Recorder(engine)
        spent = {"ours": clocked(self.play(recorder, env, n, round_))}
        others = [
            ("bare", lambda: bare(engine, recorder.said)),
            ("lockstep", lambda: self.play(Lockstep(engine), env, n, round_)),
        ]
        for i in np.random.default_rng(round_).permutation(len(others)):
            name, arm = others[i]
            spent[name] = clocked(arm())
        return spent


async def bare(
    engine: Engine, said: Mapping[Session, Sequence[tuple[Request, Completion]]]
) -> tuple[int, int]:
    """Turns of the same lengths, each as soon as the last one is there."""
    tokens = 0

    async def one(session: Session) -> None:
        nonlocal tokens
        ids: tuple[int, ...] = ()
        for turn, (request, answer) in enumerate(said[session]):
            news = request.prompt_ids
            if turn:
                before, was = said[session][turn - 1]
                news = news[len(before.prompt_ids) + len(was.ids) :]
            asked = replace(
                request, prompt_ids=ids + news, max_tokens=len(answer.ids), stop_token_ids=()
            )
            found = await engine.generate(asked)
            ids = asked.prompt_ids + found.ids
            tokens += len(found.ids)
        engine.finish(session)

    # In the order in which a wave or our rollout begins them, as many at once.
    sessions = sorted(said, key=lambda s: (s[1], s[0]))
    size = engine.max_live if engine.wave else len(sessions)
    room = asyncio.Semaphore(engine.max_live)

    async def gated(session: Session) -> None:
        async with room:
            await one(session)

    for start in range(0, len(sessions), size):
        cohort = sessions[start : start + size]
        with engine.episodes(cohort):
            await asyncio.gather(*(gated(session) for session in cohort))
    return tokens, sum(map(len, said.values()))


def _counts(trajectories: Sequence[Trajectory]) -> tuple[int, int]:
    tokens = sum(t.num_trained_tokens for t in trajectories)
    return tokens, sum(len(t.turns) for t in trajectories)


def _folder(policy: Policy) -> Path:
    folder = Path(tempfile.mkdtemp())
    policy.save(folder)
    return folder


class Scripted(ScriptedEngine):
    """Notes when each turn was asked for."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """As any script."""
        super().__init__(*args, **options)
        self.at: list[float] = []

    async def generate(self, request: Request) -> Completion:
        """Say it, and look at the thread's clock."""
        self.at.append(time.thread_time())
        return await super().generate(request)


def growth(bench: Bench, episodes: int = 9) -> dict[str, float]:
    """Host milliseconds of a turn, early and late in an episode of many turns."""
    call = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "6*7"}}\n</tool_call>'
    env = mixture_of(f"{__file__}:Patient", {})
    task = env.source("train")[0]
    rows = []
    for _ in range(episodes):
        engine = Scripted(bench.policy.tokenizer, lambda session, turn: call, max_context=1 << 20)
        rollout = bench.rollout.model_copy(update={"max_context": 1 << 20, "max_tokens": 1 << 20})
        world = play_of(rollout, engine, bench.renderer, "train")
        asyncio.run(play(env.make(task), Seat(task, 0, 0, 1), world))
        rows.append(1e3 * np.diff(engine.at))
    cost = np.median(np.array(rows), 0)
    early, late = float(np.median(cost[:8])), float(np.median(cost[-8:]))
    return {"turns": len(cost) + 1, "first ms": early, "last ms": late, "ratio": late / early}


def report(engine: str, env: str, rounds: Sequence[dict[str, Spent]]) -> dict[str, Any]:
    """A row of the table."""

    def middle(name: str) -> float:
        return statistics.median(r[name].rate for r in rounds)

    def ratio(name: str) -> float:
        return statistics.median(r["ours"].rate / r[name].rate for r in rounds)

    def cheaper(name: str) -> float:
        return statistics.median(r[name].cpu / r["ours"].cpu for r in rounds)

    def a_turn(name: str, clock: str) -> list[float]:
        return [1e3 * getattr(r[name], clock) / r[name].turns for r in rounds]

    engine_ms = a_turn("bare", "cpu")
    played = zip(a_turn("ours", "host"), a_turn("bare", "host"), strict=True)
    host_ms = [ours - bare for ours, bare in played]
    return {
        "engine": engine,
        "env": env,
        "bare tok/s": middle("bare"),
        "ours": middle("ours"),
        "lockstep": middle("lockstep"),
        "ours/bare": ratio("bare"),
        "in CPU": cheaper("bare"),
        "ours/lockstep": ratio("lockstep"),
        "CPU": cheaper("lockstep"),
        "turns": statistics.median(r["ours"].turns for r in rounds),
        "engine ms/turn": statistics.median(engine_ms),
        "host ms/turn": statistics.median(host_ms),
        "host share": statistics.median(h / e for h, e in zip(host_ms, engine_ms, strict=True)),
    }


def main() -> None:
    """Run the rounds and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--engines", default="waves,stream,vllm")
    parser.add_argument("--envs", default="tool_math,long_log,slow")
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--n", type=int, default=32)
    parser.add_argument("--live", type=int, default=128)
    parser.add_argument("--turn-tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    bench = Bench(args)
    grown = growth(bench)
    show("host time of a turn", [grown])
    rows = []
    for env in args.envs.split(","):
        name, options = ENVS[env]
        mixture = mixture_of(name, options)
        found: dict[str, list[dict[str, Spent]]] = {engine: [] for engine in bench.engines}
        for engine in bench.engines.values():
            bench.once(engine, mixture, max(2, args.n // 4), 1000)
        for round_ in range(args.rounds):
            for key, engine in bench.engines.items():
                found[key].append(bench.once(engine, mixture, args.n, round_))
        rows += [report(key, env, rounds) for key, rounds in found.items()]
        # After each environment all that there is so far: a run may be cut off.
        show("so far", rows)
        print(json.dumps({**machine(), **vars(args), "growth": grown, "rows": rows}), flush=True)


if __name__ == "__main__":
    main()
