import io
import sys
from datetime import UTC, datetime

import pytest

from agentrl import log
from agentrl.events import Measured, Warned
from agentrl.log import Log, cleaner
from agentrl.prints import BoundedStream, bound_streams, bounded

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


def made(folder, environ=None):
    return Log(folder / "logs", ["agentrl", "train"], cleaner(environ or {}), lambda: NOON)


def texts(folder):
    return {p.name: p.read_text() for p in sorted((folder / "logs").iterdir())}


def test_each_attempt_has_a_log_of_its_own(tmp_path):
    for step in (1, 2):
        entry = made(tmp_path)
        entry(Measured(step, None, 3, 1.0))
        entry.close()
    found = texts(tmp_path)
    assert list(found) == ["attempt-001.log", "attempt-002.log"]
    first, command, event = found["attempt-002.log"].splitlines()
    assert first.startswith("2026-12-01T12:00:00+00:00 agentrl ")
    assert command.endswith(" agentrl train")
    assert event.startswith("2026-12-01T12:00:00+00:00 held-out step 2 ")


def test_where_nothing_happens_nothing_is_written(tmp_path):
    made(tmp_path).close()
    assert not (tmp_path / "logs").exists()


def test_what_is_said_on_bound_streams_is_in_the_log(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    bound_streams()
    with log.logged(tmp_path / "logs", ()) as entry:
        sys.stdout.write("a line of progress\n")
        sys.stderr.write("a library warns\n")
        with bounded(20):
            sys.stdout.write("an environment prints at length\n")
        entry(Warned("a word from the run"))
    sys.stderr.write("later\n")
    assert isinstance(sys.stdout, BoundedStream)
    (text,) = texts(tmp_path).values()
    assert "progress" not in text
    assert "later" not in text
    assert "called from Python" in text
    assert "a library warns\nan environment print\n[... it printed more ...]\n" in text
    assert "warning: a word from the run\n" in text


SECRETS = {"OPENAI_API_KEY": "sk-abcdefgh", "HF_TOKEN": "hf_12345678", "DB_PASSWORD": "short"}


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("with sk-abcdefgh in it", "with *** in it"),
        ("hf_12345678", "***"),
        ("http://me:secret-word@host/x", "http://***@host/x"),
        ("--env.api_key abcdefghij --n 8", "--env.api_key *** --n 8"),
        ("api_key=abcdefghij, n=8", "api_key=***, n=8"),
        ('{"token": "abcdefghij"}', '{"token": "***"}'),
        ("Authorization: Bearer abcdefghij", "Authorization: Bearer ***"),
        ("a short cut, 4096 tokens: enough", "a short cut, 4096 tokens: enough"),
        ("the key environment variable", "the key environment variable"),
    ],
)
def test_secrets_are_not_written(tmp_path, said, written):
    entry = made(tmp_path, SECRETS)
    entry.said(said)
    entry.close()
    (text,) = texts(tmp_path).values()
    assert text.endswith(written)


def test_a_log_has_an_end(tmp_path):
    entry = made(tmp_path)
    entry.left = 10
    for _ in range(3):
        entry.said("123456789")
    entry.close()
    (text,) = texts(tmp_path).values()
    assert text.endswith("1234567891\n[... more was said ...]\n")


def test_a_log_that_cannot_be_written_is_done_without(tmp_path):
    (tmp_path / "logs").write_text("a file")
    entry = made(tmp_path)
    entry(Warned("x"))
    entry.close()
    entry.said("after its end")
    assert (tmp_path / "logs").read_text() == "a file"
