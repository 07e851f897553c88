"""docs/metrics.md says of every name in metrics.jsonl what agentrl/metrics.py says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from agentrl.metrics import METRICS, SOMETIMES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "metrics.md"
BEGIN, END = "<!-- {} -->\n", "<!-- end -->"
TABLES = {"every row": METRICS, "some rows": SOMETIMES}


def table(metrics):
    rows = [f"| `{name}` | {one.unit} | {one.meaning} |" for name, one in metrics.items()]
    return "\n".join(["| name | unit | meaning |", "|---|---|---|", *rows, ""])


def renewed(page):
    """The page with the tables as they must be."""
    for name, metrics in TABLES.items():
        begin = BEGIN.format(name)
        before, _, rest = page.partition(begin)
        page = before + begin + table(metrics) + END + rest.partition(END)[2]
    return page


def test_the_page_has_every_name_with_its_unit_and_meaning():
    page = PAGE.read_text(encoding="utf-8")
    assert page == renewed(page), f"run: python {Path(__file__).relative_to(ROOT)}"


def test_every_name_has_a_unit_and_a_meaning_that_fit_into_a_table():
    for name, one in (METRICS | SOMETIMES).items():
        assert one.unit, name
        assert one.meaning, name
        assert not re.search(r"[|\n]", name + one.unit + one.meaning), name


def test_names_that_code_writes_as_they_stand_are_in_the_table():
    groups = {name.partition("/")[0] for name in METRICS | SOMETIMES if "/" in name}
    known = re.compile("|".join(re.sub("[A-Z]+", ".+", name) for name in METRICS | SOMETIMES))
    shape = re.compile(rf"({'|'.join(sorted(groups))})/[a-z0-9_]+")
    for path in (ROOT / "agentrl").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Dict):
                names = [key.value for key in node.keys if isinstance(key, ast.Constant)]
                texts = [name for name in names if isinstance(name, str) and shape.fullmatch(name)]
                assert [text for text in texts if not known.fullmatch(text)] == [], path


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
