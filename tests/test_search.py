"""Search: ranking, reading, sources, and what goes wrong with them."""

from __future__ import annotations

import json
import random
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.errors import UsageError
from agentrl_tools._documents import Document
from agentrl_tools._words import words_of
from agentrl_tools.search import MAX_QUERY, PAGE, PASSAGE, Index, Search
from tests.tool_manners import call, check_manners, started

TEXTS = {
    "cats.txt": "A cat sat on the mat. Cats purr.",
    "dogs.md": "A dog barks at the cat. The dog sleeps; dogs dream.",
    "deep/birds.txt": "Über den Wolken: a café for birds. 東京の鳥",
    ".hidden/secret.txt": "A cat that nobody may see.",
    "picture.png": "cat",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in TEXTS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def found(content):
    return re.findall(r"^\d+\. (\S+) \(from", content, re.MULTILINE)


def rows(tmp_path, *lines):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_the_document_that_says_most_about_it_comes_first(folder):
    with started(Search(folder=folder)) as box:
        said = call(box, "search", query="dog dreams dogs")
        assert found(said.content) == ["dogs.md"]
        assert "The dog sleeps; dogs dream." in said.content
        assert found(call(box, "search", query="cat").content) == ["cats.txt", "dogs.md"]
        assert found(call(box, "search", query="cat", k=1).content) == ["cats.txt"]


def test_hidden_files_other_kinds_and_links_that_lead_out_are_not_searched(
    folder, tmp_path_factory
):
    outside = tmp_path_factory.mktemp("outside") / "key.txt"
    outside.write_text("a cat with a key")
    (folder / "link.txt").symlink_to(outside)
    assert sorted(Search(folder=folder).index.documents) == [
        "cats.txt",
        "deep/birds.txt",
        "dogs.md",
    ]


@pytest.mark.parametrize("query", ["uber", "ÜBER", "u\u0308ber", "cafe", "東京", "鳥", "CAFÉ"])
def test_case_accents_and_scripts_without_spaces_are_found(folder, query):
    with started(Search(folder=folder)) as box:
        assert found(call(box, "search", query=query).content) == ["deep/birds.txt"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat's 2nd_mat", ["the", "cat", "s", "2nd_mat"]),
        ("STRASSE Straße", ["strasse", "strasse"]),
        ("ﬁne ½", ["fine", "1", "2"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("한국어 문서", ["한국어", "문서"]),
        ("東京x", ["東", "京", "東京", "x"]),
        ("🙂 -- \u202e", []),
    ],
)
def test_words_are_those_of_the_script(text, words):
    assert words_of(text) == words


@given(st.text(max_size=80))
def test_words_hold_nothing_that_separates_words(text):
    assert all(word and not set(word) & set(" \n\t.,!-\x00\u2028") for word in words_of(text))


def test_ties_go_by_id_whatever_the_order_of_the_rows_and_of_the_words(tmp_path):
    lines = [json.dumps({"id": f"d{i}", "text": "same words here"}) for i in range(9)]
    random.Random(3).shuffle(lines)
    box = Search(jsonl=rows(tmp_path, *lines))
    for query in ("same words", "words same", "same same words"):
        assert found(call(box, "search", query=query, k=9).content) == [f"d{i}" for i in range(9)]


def test_each_document_is_shown_once_by_its_best_passage():
    text = "filler " * 200 + "needle needle " + "filler " * 200 + "needle"
    index = Index([Document("long", text), Document("short", "no such thing")])
    (hit,) = index.query("needle", 5)
    assert "needle needle" in hit.text
    assert text[hit.start :].startswith(hit.text)


@given(st.text(alphabet="ab \n東é", max_size=3000))
def test_passages_cover_a_document_and_are_bounded(text):
    index = Index([Document("only", text), Document("zz", "anchor")])
    for word in set(words_of(text)):
        (hit,) = index.query(word, 1)
        assert len(hit.text) <= PASSAGE
        assert word in words_of(hit.text)


def test_a_document_is_read_page_by_page_to_its_end(tmp_path):
    (tmp_path / "long.txt").write_text("".join(f"{i:07}\n" for i in range(1000)))
    box, text, start = Search(folder=tmp_path), "", 0
    while start is not None:
        head, _, page = call(box, "read_document", id="long.txt", start=start).content.partition(
            "\n"
        )
        assert len(page) <= PAGE
        text += page
        more = re.search(r"start=(\d+)", head)
        start = int(more[1]) if more else None
    assert text == (tmp_path / "long.txt").read_text()


def test_what_is_not_there_is_answered_with_what_to_do(folder):
    box = Search(folder=folder)
    said = call(box, "read_document", id="cat.txt")
    assert (said.status, said.content) == (
        "error",
        "read_document: there is no document 'cat.txt'. Did you mean cats.txt?",
    )
    assert "Start before that." in call(box, "read_document", id="cats.txt", start=10**6).content
    assert call(box, "search", query="zebra").content.startswith("Nothing was found")
    assert (
        call(box, "search", query=" 🙂!? ").content == "search: the query has no words. Give some."
    )
    assert f"At most {MAX_QUERY}" in call(box, "search", query="cat " * 1000).content


def test_an_empty_document_can_be_read(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "full.txt").write_text("word")
    assert "0 of 0" in call(Search(folder=tmp_path), "read_document", id="empty.txt").content


def test_an_index_is_built_once_a_process_and_shared_by_threads(folder):
    with ThreadPoolExecutor(8) as pool:
        boxes = list(pool.map(lambda _: Search(folder=folder), range(16)))
        assert len({id(box.index) for box in boxes}) == 1
        said = set(pool.map(lambda box: call(box, "search", query="a cat").content, boxes))
    assert len(said) == 1
    assert Search(folder=folder, suffixes=".md").index is not boxes[0].index


def test_rows_are_named_by_their_id_or_their_line_and_searched_in_the_named_fields(tmp_path):
    path = rows(
        tmp_path,
        '{"id": 7, "title": "Paris", "text": "a city"}',
        "",
        '{"text": "a city\u2028 of light", "other": "hidden"}',
    )
    box = Search(jsonl=path)
    assert sorted(box.index.documents) == ["3", "7"]
    assert found(call(box, "search", query="Paris").content) == ["7"]
    assert call(box, "search", query="hidden").content.startswith("Nothing")
    other = Search(
        jsonl=rows(tmp_path, '{"key": "k", "a": "x", "b": "y"}'), fields="a, b", id_field="key"
    )
    assert other.index.documents["k"].text == "x\ny"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"text": "a"}', "{"], "rows.jsonl:2: not JSON"),
        (["[" * 100_000], "rows.jsonl:1: not JSON"),
        (["[1]"], "rows.jsonl:1: a list. Write a JSON object."),
        (['{"body": "a"}'], "title or text, there is none. It has body."),
        (['{"text": 3}'], "title or text, one is a int."),
        (
            ['{"id": "x", "text": "a"}', '{"id": "x", "text": "b"}'],
            "rows.jsonl:2: id 'x' is that of line 1",
        ),
        (['{"id": [], "text": "a"}'], "its id is"),
        (['{"id": true, "text": "a"}'], "its id is True"),
        ([""], "no rows. There is nothing to search."),
        (['{"id": "-", "text": "!?"}'], "hold no words"),
    ],
)
def test_a_bad_row_is_named(tmp_path, lines, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        Search(jsonl=rows(tmp_path, *lines))


def test_a_bad_source_is_named(tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(UsageError, match=r"latin\.txt: not UTF-8 text \(byte 3\)"):
        Search(folder=tmp_path)
    with pytest.raises(UsageError, match=r"no files that end with \.org"):
        Search(folder=tmp_path, suffixes=".org")
    with pytest.raises(UsageError, match="there is no folder"):
        Search(folder=tmp_path / "nowhere")
    with pytest.raises(UsageError, match="there is no file"):
        Search(jsonl=tmp_path)
    for wrong in ({}, {"folder": tmp_path, "jsonl": tmp_path}):
        with pytest.raises(UsageError, match="one of folder and jsonl"):
            Search(**wrong)


def test_nonsense_is_answered_with_a_message(folder):
    with started(Search(folder=folder)) as box:
        check_manners(box)


def test_a_link_to_what_is_hidden_shows_nothing_of_it(tmp_path):
    (tmp_path / ".secret").mkdir()
    (tmp_path / ".secret" / "b.txt").write_text("hello secret")
    (tmp_path / "a.txt").write_text("hello world")
    (tmp_path / "c.txt").symlink_to(tmp_path / ".secret" / "b.txt")
    assert list(Search(folder=tmp_path).index.documents) == ["a.txt"]


@pytest.mark.parametrize("name", ["a\n9. fake (from 0).txt", "\udcff.txt", "\x1b[31m.txt"])
def test_a_name_that_does_not_stand_in_a_line_is_refused(tmp_path, name):
    (tmp_path / name).write_text("hello")
    with pytest.raises(UsageError, match="can't name a document in a line"):
        Search(folder=tmp_path)
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"id": name, "text": "hello"}) + "\n")
    with pytest.raises(UsageError, match=r"rows\.jsonl:1.*can't name a document in a line"):
        Search(jsonl=rows)
