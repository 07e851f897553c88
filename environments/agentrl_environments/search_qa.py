"""Questions whose answer takes several searches, each of which leads to the next.

In    questions of `_qa_tasks.py` about the documents of `_qa_world.py`
Out   SearchQa: one tool, a search by words; reward 1 for exactly the name or the number
Not   knowledge of the world: everything in it is made up
"""

from __future__ import annotations

import re
import threading
from functools import cache, partial
from typing import Final

from agentrl.env import ToolEnv
from agentrl.errors import ToolError, UsageError, suggestion
from agentrl.graders import final_answer
from agentrl.task import ProceduralTasks, Task, TaskSource
from agentrl.tooling import ToolResult, tool
from agentrl.trajectory import Stop, Trajectory
from agentrl_environments._qa_tasks import HOPS, qa_task
from agentrl_environments._qa_world import documents
from agentrl_tools._words import words_of
from agentrl_tools.search import MAX_HITS, Hit, Index

SIZES = {"train": 50_000, "test": 2_000}
MAX_QUERY = 200
"""Characters."""
_BUILDING: Final = threading.Lock()
_EDGES: Final = re.compile(r"^[\W_]+|[\W_]+$")


class SearchQa(ToolEnv):
    """Questions that need 2 to 4 searches in a made-up world."""

    max_turns = 10
    system_prompt = (
        "Answer with the search. Questions mean today; yearbooks are out of date. "
        "End with Answer: and the name or number."
    )

    def __init__(self, difficulty: str = "mixed", results: int = 3) -> None:
        """Choose questions and how much a search shows.

        Args:
            difficulty: easy, medium, hard (2, 3 or 4 searches) or mixed.
            results: Documents that a search shows, 3 to 10.

        Raises:
            UsageError: An option is out of range, or bm25s is not installed.
        """
        known = ("mixed", *HOPS)
        if difficulty not in known:
            hint = suggestion(difficulty, known, f"There are {', '.join(known)}.")
            raise UsageError(f"search_qa: difficulty {difficulty!r} is unknown. {hint}")
        if not 3 <= results <= MAX_HITS:
            raise UsageError(f"search_qa: results is {results}. Give 3 to {MAX_HITS}.")
        self.difficulty, self.results = difficulty, results
        self.index = corpus()
        self._asked: list[list[str]] = []

    @classmethod
    def tasks(cls, split: str) -> TaskSource:
        """Questions of all difficulties."""
        return ProceduralTasks(qa_task, SIZES[split], 0, split=split)

    def task_source(self, split: str) -> TaskSource:
        """Questions of the chosen difficulty."""
        make = partial(qa_task, difficulty=self.difficulty)
        return ProceduralTasks(make, SIZES[split], 0, split=split)

    def start(self, task: Task) -> None:
        """Nothing was asked yet."""
        self._asked = []

    @tool(parallel=False)
    def search(self, query: str) -> ToolResult:
        """Find documents by their words."""
        if len(query) > MAX_QUERY:
            raise ToolError(f"search: the query is too long. At most {MAX_QUERY} characters.")
        words = sorted(words_of(query))
        if not words:
            raise ToolError("search: the query has no words. Give a name.")
        again = words in self._asked
        self._asked.append(words)
        hits = self.index.query(query, self.results)
        shown = "\n".join(map(_shown, hits)) or "Nothing was found. Try other words."
        return ToolResult(shown, metrics={"repeated": float(again), "found": float(len(hits))})

    def reward(self, task: Task, trajectory: Trajectory) -> dict[str, float]:
        """1 where the last turn gives exactly the answer, whatever its case, and was not cut."""
        answer = final_answer(trajectory.answer) if trajectory.stop is Stop.ANSWER else None
        return {"correct": float(_plain(answer or "") == _plain(task.answer))}


def corpus() -> Index:
    """The index of all documents, made once a process; threads share it."""
    with _BUILDING:
        return _corpus()


@cache
def _corpus() -> Index:
    return Index(documents(), "search_qa")


def _shown(hit: Hit) -> str:
    """A document; its text begins with its name."""
    return f"* {hit.text}"


def _plain(answer: str) -> str:
    """An answer without case, spaces and what surrounds it."""
    return " ".join(_EDGES.sub("", answer).casefold().split()).removeprefix("the ")
