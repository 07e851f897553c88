"""What the documents say can be typed, clicked and found."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from agentrl.metrics import METRICS

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *(ROOT / name / "README.md" for name in ("environments", "tools", "examples")),
    ]
)
NAMES = [path.relative_to(ROOT).as_posix() for path in PAGES]
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s#]*)(?:#([^)\s]*))?\)")


def prose(path):
    """The text without its code."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(path):
    """What `#...` may say of a document: its headings, as a renderer names them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text("utf-8")), re.MULTILINE):
        plain = unicodedata.normalize("NFKD", heading).lower().replace("`", "")
        found.add(re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip()))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name):
    path = ROOT / name
    for target, anchor in LINK.findall(prose(path)):
        if re.match(r"[a-z]+:", target):
            continue
        there = (path.parent / target).resolve() if target else path
        assert there.exists(), f"{name}: {target}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{name}: {target}#{anchor}"


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("docs/decisions")])
def test_metrics_that_are_named_are_recorded(name):
    heads = {metric.partition("/")[0] for metric in METRICS if "/" in metric}
    named = re.findall(r"`([a-z]+)/([a-z_0-9]+)`", (ROOT / name).read_text(encoding="utf-8"))
    for head, rest in named:
        if head in heads and f"{head}/{rest}" not in METRICS:
            assert (ROOT / "agentrl" / head / rest).with_suffix(".py").exists() or (
                head == "env"
            ), f"{name}: {head}/{rest}"


def test_messages_that_troubleshooting_quotes_are_said():
    told = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    sources = " ".join(
        re.sub(r'"\s+f?"', "", path.read_text("utf-8")) for path in (ROOT / "agentrl").rglob("*.py")
    )
    quoted = re.findall(r'^\| "([^"]+)"', told, re.MULTILINE)
    assert len(quoted) > 5
    for message in quoted:
        assert message in sources, message


def test_the_site_builds_with_every_page_in_its_place(tmp_path):
    if shutil.which("mkdocs", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("mkdocs is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "s"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "s" / "environments" / "index.html").exists()
    for page in (tmp_path / "s").rglob("*.html"):
        fetched = re.findall(
            r'(?:src|href)="https?://[^"]*"[^>]*(?:stylesheet|script)', page.read_text()
        )
        assert not fetched, page
