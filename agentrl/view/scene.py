"""Stories → Scenes: what stands side by side on a page, and the data that it is drawn from.

In    one story, or two whose steps and tasks are paired
Out   Scene of Rows, a row a task; plain values for a page; the same task over steps
Not   conversations (transcript.py), which a page holds apart
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrl.view.brief import Brief
from agentrl.view.chapter import Chapter, Group
from agentrl.view.story import Story
from agentrl.view.transcript import STOPS

REF = 16
"""Characters of a task's id in addresses."""
Trail = Mapping[tuple[str, str], list[tuple[str, float]]]
"""Kind and task to the keys of its scenes, in order, and its mean reward there."""


@dataclass(frozen=True, slots=True)
class Row:
    """One task, as each side played it."""

    groups: tuple[Group | None, ...]

    @property
    def one(self) -> Group:
        """The group of the first side that has it."""
        return next(group for group in self.groups if group is not None)

    @property
    def size(self) -> int:
        """Bytes of the lines that it takes."""
        return sum(group.size for group in self.groups if group is not None)


@dataclass(frozen=True, slots=True)
class Scene:
    """One step of each side."""

    key: str
    title: str
    chapters: tuple[Chapter | None, ...]
    rows: tuple[Row, ...]


def scenes_of(stories: Sequence[Story], task: str = "") -> list[Scene]:
    """The steps of all stories, each once; where two have none in common, their last ones too.

    Args:
        stories: One, or two.
        task: Only tasks whose id or words hold this.
    """
    by_key = [{chapter.key: chapter for chapter in story.chapters} for story in stories]
    keys = dict.fromkeys(key for found in by_key for key in found)
    order = sorted(keys, key=lambda key: _order(next(f[key] for f in by_key if key in f)))
    scenes = [_scene(key, [found.get(key) for found in by_key], task) for key in order]
    measured = [{k for k in found if not k.startswith("step")} for found in by_key]
    if len(stories) > 1 and all(measured):
        last = [_last(story) for story in stories]
        if len({chapter.key for chapter in last}) > 1:
            scenes.append(_scene("last", last, task))
    return [scene for scene in scenes if scene.rows]


def first_of(scenes: Sequence[Scene]) -> int:
    """What a page opens with: the last step that something was kept of, or the last measurement."""
    two = bool(scenes) and len(scenes[0].chapters) > 1
    for at in reversed(range(len(scenes))):
        chapters = scenes[at].chapters
        if two and all(c is not None and c.kind != "step" for c in chapters):
            return at
        if not two and any(c is not None and any(b.kept for b in c.members) for c in chapters):
            return at
    return max(0, len(scenes) - 1)


def trails(story: Story) -> Trail:
    """Every task's mean reward at each step that has it."""
    found: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for chapter in story.chapters:
        for group in chapter.groups:
            if group.mean is not None:
                where = found.setdefault((chapter.kind, group.task), [])
                where.append((chapter.key, group.mean))
    return found


def ref_of(task: str) -> str:
    """A task's id in addresses."""
    return task[:REF]


def scene_facts(scene: Scene, stories: Sequence[Story]) -> list[dict[str, Any] | None]:
    """What a page says above the tasks, a side."""
    pairs = zip(scene.chapters, stories, strict=True)
    return [None if chapter is None else _chapter(chapter, story) for chapter, story in pairs]


def row_facts(row: Row, scene: Scene, trail: Sequence[Trail]) -> dict[str, Any]:
    """What a page shows of a task but for its conversations."""
    one = row.one
    return {
        "ref": ref_of(one.task),
        "task": one.task,
        "title": one.title,
        "words": list(one.words),
        "sides": [
            group and chapter and _group(group, chapter, known)
            for group, chapter, known in zip(row.groups, scene.chapters, trail, strict=True)
        ],
    }


def _order(chapter: Chapter) -> tuple[int, bool]:
    return (chapter.step or 0, chapter.kind != "step")


def _last(story: Story) -> Chapter:
    return [c for c in story.chapters if c.kind != "step"][-1]


def _scene(key: str, chapters: Sequence[Chapter | None], task: str) -> Scene:
    there = [chapter for chapter in chapters if chapter is not None]
    title = " and ".join(dict.fromkeys(chapter.name for chapter in there))
    return Scene(key, title, tuple(chapters), tuple(_rows(chapters, task)))


def _rows(chapters: Sequence[Chapter | None], task: str) -> Iterator[Row]:
    """Tasks in the order of the first side that has them; equal ids of one side in their order."""
    sides = [_numbered(chapter) for chapter in chapters]
    for name in dict.fromkeys(name for side in sides for name in side):
        row = Row(tuple(side.get(name) for side in sides))
        if task in row.one.task or task.casefold() in row.one.title.casefold():
            yield row


def _numbered(chapter: Chapter | None) -> dict[tuple[str, int], Group]:
    found: dict[tuple[str, int], Group] = {}
    for group in chapter.groups if chapter else ():
        times = 0
        while (group.task, times) in found:
            times += 1
        found[group.task, times] = group
    return found


def _chapter(chapter: Chapter, story: Story) -> dict[str, Any]:
    members = list(chapter.members)
    rewards = [b.reward for b in members if b.valid and b.reward is not None]
    used = [g for g in chapter.groups if g.kept]
    found: dict[str, Any] = {
        "kind": chapter.kind,
        "name": chapter.name,
        "tasks": len(chapter.groups),
        "of": len(members),
        "reward": sum(rewards) / len(rewards) if rewards else None,
        "problem": chapter.problem,
    }
    graded = [b.correct for b in members if b.valid and b.correct is not None]
    if graded:
        found["correct"] = sum(graded) / len(graded)
    if chapter.kind == "step":
        found |= {
            "kept": sum(b.kept for b in members),
            "tokens_kept": sum(b.tokens for b in members if b.kept),
            "tokens_all": sum(b.tokens for b in members),
            "flat": sum(g.flat for g in chapter.groups),
            "spread_all": _mean([g.spread_all for g in used]),
            "spread_kept": _mean([g.spread_kept for g in used]),
        }
    if chapter.choice is not None:
        c = chapter.choice
        found |= {
            "rule": c.terms.rule,
            "method": c.method,
            "price": c.terms.price,
            "budget": c.budget,
            "gap": c.gap,
            "q": _rounded(c.q),
            "other": c.other and list(c.other),
            "same": c.same,
        }
    return found


def _group(group: Group, chapter: Chapter, trail: Trail) -> dict[str, Any]:
    found: dict[str, Any] = {
        "mean": group.mean,
        "flat": group.flat,
        "note": group.note,
        "members": [_member(group, at) for at in range(len(group.members))],
        "trail": [[key, round(mean, 6)] for key, mean in trail[chapter.kind, group.task]]
        if (chapter.kind, group.task) in trail
        else [],
    }
    if chapter.kind == "step":
        found |= {"spread_all": group.spread_all, "spread_kept": group.spread_kept}
    return found


def _member(group: Group, at: int) -> dict[str, Any]:
    b = group.members[at]
    found: dict[str, Any] = {
        "member": b.member,
        "reward": b.reward,
        "kept": b.kept,
        "tokens": b.tokens,
        "trained": b.trained,
        "turns": b.turns,
        "calls": b.calls,
        "failed": b.failed,
        "stop": STOPS.get(b.stop, b.stop),
        "status": b.status,
        "version": b.version,
        **_some(b),
    }
    if group.why:
        why = group.why[at]
        rival = None if why.rival is None else group.members[why.rival].member
        found["why"] = {
            "said": why.said,
            "value": _rounded(why.value),
            "cost": _rounded(why.cost),
            "margin": _rounded(why.margin),
            "rival": rival,
        }
    return found


def _some(b: Brief) -> dict[str, Any]:
    """What only some lines say."""
    found = {
        "correct": b.correct,
        "advantage": b.advantage,
        "weight": b.weight if b.kept else None,
        "parts": [list(part) for part in b.parts] or None,
        "metrics": [list(metric) for metric in b.metrics] or None,
        "problem": b.problem or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
