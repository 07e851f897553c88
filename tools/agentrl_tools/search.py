"""Search: documents ranked by BM25, for a policy.

In    a folder of texts or a JSONL file; what a policy looks for
Out   passages by rank, and documents to read on; the same answer every time, ties by id
Not   embeddings, spelling or synonyms: a passage is found by the words that it holds
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from agentrl.errors import ToolError, UsageError, suggestion
from agentrl.optional import need
from agentrl.toolbox import Toolbox
from agentrl.tooling import tool
from agentrl_tools._documents import Document, Source, load
from agentrl_tools._options import names
from agentrl_tools._words import words_of

MAX_QUERY = 1000
"""Characters."""
MAX_HITS = 10
PASSAGE = 500
"""Characters of a passage at most; it ends between words where that is possible."""
PAGE = 3000
"""Characters that are read at a time."""
_MOST_SUGGESTED = 1000
"""Comparing a wrong id with more than these would take longer than the search itself."""
_BUILDING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage that was found."""

    id: str
    """Of its document."""
    start: int
    """Characters of the document before it."""
    text: str


@dataclass(frozen=True, slots=True)
class _Passage:
    document: int
    start: int
    end: int


class Index:
    """Documents that can be ranked; nothing in it changes, so threads may share it."""

    def __init__(self, documents: Sequence[Document], where: str = "search") -> None:
        """Read every word once.

        Raises:
            UsageError: The documents hold no words, or bm25s is not installed.
        """
        self.documents: Mapping[str, Document] = {d.id: d for d in documents}
        self._order = tuple(documents)
        self._passages = [p for i, d in enumerate(documents) for p in _passages(i, d.text)]
        self._vocabulary: dict[str, int] = {}
        rows = [self._numbered(passage) for passage in self._passages]
        if not self._vocabulary:
            raise UsageError(f"{where}: its documents hold no words. Give another source.")
        self._ranking: Any = need("bm25s", "search", where).BM25()
        self._ranking.index((rows, dict(self._vocabulary)), show_progress=False)

    def query(self, text: str, k: int) -> list[Hit]:
        """The best passages, one of each document, best first and ties by id."""
        # Sorted: sums of the same words are then the same sums, in whatever order they came.
        known = sorted({self._vocabulary[w] for w in words_of(text) if w in self._vocabulary})
        if not known:
            return []
        scores = self._ranking.get_scores_from_ids(known)
        found = np.flatnonzero(scores > 0)
        ranked = found[np.argsort(-scores[found], kind="stable")]
        best: dict[int, _Passage] = {}
        for number in ranked:
            passage = self._passages[number]
            best.setdefault(passage.document, passage)
            if len(best) == k:
                break
        return [self._hit(passage) for passage in best.values()]

    def _hit(self, passage: _Passage) -> Hit:
        document = self._order[passage.document]
        return Hit(document.id, passage.start, document.text[passage.start : passage.end])

    def _numbered(self, passage: _Passage) -> list[int]:
        """A passage's words as numbers; its document's name counts in each passage."""
        document = self._order[passage.document]
        words = words_of(f"{document.id}\n{document.text[passage.start : passage.end]}")
        return [self._vocabulary.setdefault(word, len(self._vocabulary)) for word in words]


class Search(Toolbox):
    """Search documents by their words, and read them."""

    def __init__(
        self,
        *,
        folder: str | Path = "",
        jsonl: str | Path = "",
        suffixes: str | Sequence[str] = (".txt", ".md", ".rst"),
        fields: str | Sequence[str] = ("title", "text"),
        id_field: str = "id",
    ) -> None:
        """Open an index; one of a source is built only once a process.

        Args:
            folder: Its texts are searched, also those in folders inside; hidden ones are not.
            jsonl: Its rows are searched; instead of a folder.
            suffixes: Endings of the files of a folder.
            fields: Fields of a row that hold text.
            id_field: Field that names a row; without it a row is called by its line.

        Raises:
            UsageError: There is nothing to search, or a file cannot be read.
        """
        if bool(str(folder)) == bool(str(jsonl)):
            raise UsageError("search: what to search is not clear. Give one of folder and jsonl.")
        path = Path(folder or jsonl)
        if not (path.is_dir() if folder else path.is_file()):
            kind = "folder" if folder else "file"
            raise UsageError(f"search: there is no {kind} {path}. Check the path.")
        endings = tuple(suffix.lower() for suffix in names(suffixes)) if folder else ()
        columns = () if folder else names(fields)
        self.index = _index(Source(path.resolve(), endings, columns, id_field))

    @tool
    def search(self, query: str, k: Annotated[int, Field(ge=1, le=MAX_HITS)] = 5) -> str:
        """Find the passages that best match some words.

        Args:
            query: Words to look for. Passages are found by the words that they hold.
            k: How many passages to show.
        """
        if len(query) > MAX_QUERY:
            raise ToolError(
                f"search: the query has {len(query)} characters. At most {MAX_QUERY} are allowed. "
                "Give the words that matter."
            )
        if not words_of(query):
            raise ToolError("search: the query has no words. Give some.")
        hits = self.index.query(query, k)
        if not hits:
            return "Nothing was found: no document holds any of these words. Try other words."
        return "\n\n".join(_shown(rank, hit) for rank, hit in enumerate(hits, 1))

    @tool
    def read_document(self, id: str, start: Annotated[int, Field(ge=0)] = 0) -> str:
        """Read a document, some thousand characters at a time.

        Args:
            id: Name of the document, as the search shows it.
            start: How many characters to pass over.
        """
        document = self.index.documents.get(id)
        if document is None:
            raise ToolError(f"read_document: there is no document {id[:80]!r}. {self._near(id)}")
        length = len(document.text)
        if start and start >= length:
            raise ToolError(f"read_document: {id} has {length} characters. Start before that.")
        end = min(start + PAGE, length)
        more = f"Go on with start={end}." if end < length else "This is its end."
        return (
            f"[{id}, characters {start} to {end} of {length}. {more}]\n{document.text[start:end]}"
        )

    def _near(self, id: str) -> str:
        known = self.index.documents
        otherwise = "Take an id from a search."
        return otherwise if len(known) > _MOST_SUGGESTED else suggestion(id[:80], known, otherwise)


@cache
def _built(source: Source) -> Index:
    return Index(load(source), str(source.path))


def _index(source: Source) -> Index:
    # Many instances begin at once; the first one builds, the others wait for it.
    with _BUILDING:
        return _built(source)


def _passages(document: int, text: str) -> Iterator[_Passage]:
    start = 0
    while start < len(text):
        end = min(start + PASSAGE, len(text))
        if end < len(text):
            spaces = [m.end() for m in re.finditer(r"\s", text[start + PASSAGE // 2 : end])]
            end = start + PASSAGE // 2 + spaces[-1] if spaces else end
        if text[start:end].strip():
            yield _Passage(document, start, end)
        start = end


def _shown(rank: int, hit: Hit) -> str:
    return f"{rank}. {hit.id} (from {hit.start})\n{' '.join(hit.text.split())}"
