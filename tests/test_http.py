"""HTTP: what a policy may reach, what it may not, and playing it again."""

from __future__ import annotations

import asyncio
import functools
import gzip
import http.server
import json
import math
import re
import tempfile
import threading
import zlib
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.errors import ToolError, UsageError
from agentrl.task import Task
from agentrl_tools._addresses import address_objection, host_objection
from agentrl_tools._cassette import Answer, Cassette
from agentrl_tools._fetch import MAX_DECODED, MAX_MEMBERS, MAX_RAW, Fetcher, Place, Rules
from agentrl_tools.http import MAX_TEXT, Http
from tests.tool_manners import call, check_manners, started

PUBLIC = "8.8.8.8"


class Web:
    """A web of one function, which notes what reached it and which names were looked up."""

    def __init__(self, answer=None, addresses=(PUBLIC,)):
        self.requests, self.lookups = [], []
        self._answer, self._addresses = answer or (lambda request: "hello"), list(addresses)

    def __call__(self, rules):
        return Fetcher(rules, self._resolve, lambda: httpx.MockTransport(self._handle))

    def _resolve(self, host, port):
        self.lookups.append((host, port))
        if not address_objection(host) or host in ("127.0.0.1", "::1", "169.254.169.254"):
            return [host]
        found = self._addresses.pop(0) if len(self._addresses) > 1 else self._addresses[0]
        if isinstance(found, Exception):
            raise found
        return [found] if isinstance(found, str) else found

    async def _handle(self, request):
        self.requests.append(request)
        answer = self._answer(request)
        if isinstance(answer, str):
            answer = httpx.Response(200, text=answer)
        if not answer.is_stream_consumed:
            return answer
        stream = httpx.ByteStream(answer.content)  # as it comes from a network
        return httpx.Response(answer.status_code, headers=answer.headers, stream=stream)


def fetch(web, url, *, allow="*", **more):
    options = {name: more.pop(name) for name in ("methods", "allow_private") if name in more}
    with started(Http(allow=allow, fetcher=web, **options)) as box:
        return call(box, "fetch", url=url, **more)


def refused(said, *words):
    return said.status == "error" and all(word in said.content for word in words)


def test_a_page_is_shown_with_its_status_and_kind():
    said = fetch(Web(), "http://example.org/a?b=c", allow="example.org")
    assert (said.status, said.content) == ("ok", "200 text/plain; charset=utf-8\n\nhello")


def test_the_request_goes_to_the_checked_address_under_its_own_name():
    web = Web()
    fetch(web, "https://Example.org/a?b=c#d")
    (request,) = web.requests
    assert str(request.url) == f"https://{PUBLIC}/a?b=c"
    assert request.headers["host"] == "example.org"
    assert request.extensions["sni_hostname"] == "example.org"
    assert web.lookups == [("example.org", 443)]


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("127.8.9.1", False),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("172.16.0.1", False),
        ("172.31.255.255", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("100.127.255.254", False),
        ("192.0.0.170", False),
        ("192.0.2.1", False),
        ("198.18.0.1", False),
        ("224.0.0.1", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
        ("192.88.99.1", False),
        ("::", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:8.8.8.8", False),
        ("::127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::8.8.8.8", False),
        ("64:ff9b:1::1", False),
        ("2002:7f00:1::", False),
        ("2001::1", False),
        ("2001:db8::1", False),
        ("3fff::1", False),
        ("fc00::1", False),
        ("fd12:3456::1", False),
        ("fe80::1", False),
        ("fe80::1%eth0", False),
        ("fec0::1", False),
        ("ff02::1", False),
        ("5f00::1", False),
        ("", False),
        ("localhost", False),
    ],
)
def test_only_the_public_internet_is_reached_by_a_name_that_leads_there(address, public):
    assert (address_objection(address) == "") is public
    web = Web(addresses=[address or "x"])
    said = fetch(web, "http://example.org/")
    assert (said.status == "ok") is public
    assert bool(web.requests) is public
    assert public or refused(said, "example.org is not allowed: its address")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0x7f.0.0.1",
        "017700000001",
        "0177.0.0.1",
        "0177.0.0.01",
        "127.0.0.0x1",
        "127。0。0。1",
        "\uff11\uff12\uff17.0.0.1",
        "0.0.0.0",
        "0",
        "[::]",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[fe80::1%25eth0]",
        "user@127.0.0.1",
        "example.org@127.0.0.1",
        "example.org:80@127.0.0.1:80",
        "127.0.0.1#@example.org",
        "127.0.0.1\\@example.org",
        "example.org\\@127.0.0.1",
        "127.0.0.1%00.example.org",
        "exa mple.org",
        "-example.org",
        "a..b",
        "",
    ],
)
def test_no_spelling_of_an_address_leads_inside(host):
    web = Web(addresses=["127.0.0.1"])
    said = fetch(web, f"http://{host}/")
    assert said.status == "error"
    assert web.requests == []


@pytest.mark.parametrize("host", ["0", "0x7f.1", "1.2.3", "1.2.3.4.5", "a.0x1", "08.1.1.1", ""])
def test_numbers_in_odd_spellings_are_no_hosts(host):
    assert host_objection(host)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.org/",
        "gopher://example.org/",
        "//example.org/",
        "example.org",
        "",
        "http:example.org",
        "data:text/plain,x",
        "unix:///run/x",
        "http://example.org:99999/",
        "http://example.org:x/",
        "http://exa\nmple.org/",
        "http://example.org/" + "x" * 3000,
    ],
)
def test_what_is_no_url_of_the_web_is_refused(url):
    web = Web()
    assert refused(fetch(web, url), "fetch: ")
    assert web.lookups == []


@pytest.mark.parametrize(
    ("allow", "url", "allowed"),
    [
        ("", "http://example.org/", False),
        ("example.org", "http://example.org/", True),
        ("example.org", "https://EXAMPLE.ORG./", True),
        ("example.org", "http://www.example.org/", False),
        ("example.org", "http://notexample.org/", False),
        ("example.org", "http://example.org.evil.net/", False),
        ("example.org", "http://example.org:8080/", False),
        ("example.org", "http://example.org:443/", False),
        ("example.org", "https://example.org:443/", True),
        ("example.org:8080", "http://example.org:8080/", True),
        ("example.org:8080", "http://example.org/", False),
        ("*.example.org", "http://www.example.org/", True),
        ("*.example.org", "http://example.org/", False),
        ("*.example.org", "http://evilexample.org/", False),
        ("a.org, b.org", "http://b.org/", True),
        ("xn--mnchen-3ya.de", "http://münchen.de/ü", True),
        ("*", "http://anything.net/", True),
        ("*", "http://anything.net:22/", False),
        ("*:22", "http://anything.net:22/", True),
    ],
)
def test_only_the_hosts_and_ports_of_the_list_are_reached(allow, url, allowed):
    web = Web()
    said = fetch(web, url, allow=allow)
    assert (said.status == "ok") is allowed
    assert allowed or (refused(said, "is not allowed. Allowed: ") and web.lookups == [])


def test_a_name_is_looked_up_once_so_it_cannot_change_between_check_and_use():
    web = Web(addresses=[PUBLIC, "127.0.0.1"])
    assert fetch(web, "http://rebinding.net/").status == "ok"
    assert [r.url.host for r in web.requests] == [PUBLIC]
    assert len(web.lookups) == 1


def test_one_bad_address_among_good_ones_is_enough():
    web = Web(addresses=[[PUBLIC, "10.0.0.1"]])
    assert refused(fetch(web, "http://example.org/"), "10.0.0.1 is a private network")
    assert web.requests == []


def redirecting(*locations, status=302):
    left = list(locations)

    def answer(request):
        if left:
            return httpx.Response(status, headers={"location": left.pop(0)})
        return httpx.Response(200, text=f"{request.method} {request.content.decode()}")

    return answer


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://[::1]/",
        "http://169.254.169.254/latest/meta-data",
        "//127.0.0.1/",
        "http://user@example.org/",
        "http://other.net/",
        "http://example.org:8080/",
        "file:///etc/passwd",
        "http://[/",
    ],
)
def test_a_redirect_is_checked_as_the_first_url_was(location):
    web = Web(redirecting(location))
    said = fetch(web, "http://example.org/", allow="example.org, 127.0.0.1, [::1]")
    assert said.status == "error"
    assert len(web.requests) == 1


def test_a_redirect_to_a_name_that_leads_inside_is_refused():
    web = Web(redirecting("http://inside.net/"), addresses=[PUBLIC, "10.1.2.3"])
    assert refused(fetch(web, "http://example.org/"), "inside.net is not allowed", "10.1.2.3")
    assert len(web.requests) == 1


def test_three_redirects_are_followed_and_no_more():
    said = fetch(Web(redirecting("/a", "b", "https://c.net/")), "http://example.org/")
    assert "from https://c.net/" in said.content
    said = fetch(Web(redirecting(*"abcd")), "http://example.org/")
    assert refused(said, "redirects more than 3 times")


@pytest.mark.parametrize(
    ("status", "sent"),
    [(301, "GET "), (302, "GET "), (303, "GET "), (307, "POST x"), (308, "POST x")],
)
def test_a_body_is_sent_on_only_where_the_redirect_says_so(status, sent):
    web = Web(redirecting("/next", status=status))
    said = fetch(web, "http://example.org/", methods="POST", method="POST", body="x")
    assert said.content.endswith(sent)


def test_cookies_credentials_and_proxies_of_nobody_are_sent(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")

    def answer(request):
        return httpx.Response(302, headers={"location": "/next", "set-cookie": "a=b"})

    web = Web(answer)
    fetch(web, "http://example.org/")
    assert len(web.requests) == 4
    for request in web.requests:
        assert not {"cookie", "authorization", "proxy-authorization"} & set(request.headers)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_methods_that_change_something_are_refused_unless_configured(method):
    web = Web(lambda request: request.method)
    assert refused(fetch(web, "http://a.org/", method=method), "Allowed: GET, HEAD.")
    assert fetch(
        web, "http://a.org/", method=method, methods=["GET", method.lower()]
    ).content.endswith(method)
    assert refused(fetch(web, "http://a.org/", body="x"), "GET sends no body")


def packed(data, encoding="gzip"):
    return httpx.Response(
        200,
        headers={"content-encoding": encoding, "content-type": "text/plain"},
        stream=httpx.ByteStream(data),
    )


def test_what_is_too_long_is_not_received_to_its_end():
    taken = []

    async def endless():
        while True:
            taken.append(1)
            yield b"x" * 65536

    web = Web(lambda request: httpx.Response(200, content=endless()))
    assert refused(fetch(web, "http://a.org/"), f"more than {MAX_RAW} bytes")
    assert len(taken) <= MAX_RAW // 65536 + 2


@pytest.mark.parametrize(
    "bomb",
    [
        gzip.compress(bytes(MAX_DECODED + 1)),
        gzip.compress(bytes(MAX_DECODED)) + gzip.compress(b"x"),
        gzip.compress(bytes(1 << 26), 9),
        zlib.compress(bytes(MAX_DECODED + 1)),
    ],
)
def test_a_bomb_is_not_unpacked(bomb):
    encoding = "gzip" if bomb[0] == 0x1F else "deflate"
    said = fetch(Web(lambda request: packed(bomb, encoding)), "http://a.org/")
    assert refused(said, f"unpacks to more than {MAX_DECODED} bytes")


def test_a_page_of_very_many_parts_is_refused_before_they_are_all_looked_at():
    part = gzip.compress(b"", 9)
    data = part * MAX_MEMBERS
    assert fetch(Web(lambda request: packed(data)), "http://a.org/").status == "ok"
    said = fetch(Web(lambda request: packed(data + part)), "http://a.org/")
    assert refused(said, f"packed in more than {MAX_MEMBERS} parts")


def test_the_loop_has_turns_while_a_page_of_small_chunks_is_received():
    async def chunks():
        for _ in range(10_000):
            yield b"x"

    async def main():
        web = Web(lambda request: httpx.Response(200, content=chunks()))
        box = Http(allow="*", fetcher=web)
        box.start(Task("?"))
        turns, going = 0, asyncio.ensure_future(box.fetch("http://a.org/"))
        while not going.done():
            await asyncio.sleep(0)
            turns += 1
        assert going.result().content.endswith("x" * 10_000)
        return turns

    assert asyncio.run(main()) > 100


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "gzip, br", "compress"])
def test_packing_without_a_limit_is_refused(encoding):
    assert refused(
        fetch(Web(lambda request: packed(b"x", encoding)), "http://a.org/"), "not as gzip"
    )


def test_packed_pages_are_unpacked_and_damaged_ones_named():
    data = gzip.compress(b"one ") + gzip.compress(b"two")
    assert fetch(Web(lambda request: packed(data)), "http://a.org/").content.endswith("one two")
    assert fetch(Web(lambda request: packed(data[:-9])), "http://a.org/").status == "ok"
    assert refused(
        fetch(Web(lambda request: packed(b"junk")), "http://a.org/"), "cannot be unpacked"
    )
    assert fetch(Web(lambda request: packed(b"")), "http://a.org/").status == "ok"


@pytest.mark.parametrize(
    ("kind", "body", "shown"),
    [
        ("text/html; charset=ISO-8859-1", b"caf\xe9", "café"),
        ("application/ld+json", '{"a": "ß"}'.encode(), '{"a": "ß"}'),
        ("text/plain; charset=cp99999", "ü".encode(), "ü"),
        ("text/plain; charset=punycode", b"abc-", "abc-"),
        ("text/plain", b"\xff\xfe", "\ufffd\ufffd"),
        ("image/png", b"\x89PNG", "[4 bytes that are no text are not shown]"),
        ("text/plain; charset=utf-16", "ab".encode("utf-16"), "ab"),
        ("text/plain; charset=utf-32", ("é" * 9).encode("utf-32"), "é" * 9),
        ("text/\x1b[31m", b"x", "200 text/?[31m\n\nx"),
        ("", b"plain", "200 of no stated type\n\nplain"),
        ("", b"\x00\x01", "[2 bytes that are no text are not shown]"),
        (
            "text/plain",
            b"x" * (MAX_TEXT + 5),
            f"[only the first {MAX_TEXT} characters of {MAX_TEXT + 5} bytes]",
        ),
    ],
)
def test_text_is_shown_in_its_encoding_and_nothing_else_is(kind, body, shown):
    headers = {"content-type": kind} if kind else {}
    web = Web(lambda request: httpx.Response(200, headers=headers, content=body))
    assert fetch(web, "http://a.org/").content.endswith(shown)


def test_a_page_that_is_not_there_is_an_error_with_its_text():
    said = fetch(Web(lambda request: httpx.Response(404, text="gone")), "http://a.org/x")
    assert (said.status, said.content.split()[0]) == ("error", "404")
    assert said.content.endswith("gone")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (httpx.ConnectTimeout(""), "did not answer in time"),
        (httpx.ReadTimeout(""), "did not answer in time"),
        (httpx.ConnectError("no route"), "cannot be reached: no route."),
        (httpx.RemoteProtocolError(""), "cannot be reached: RemoteProtocolError."),
    ],
)
def test_what_the_network_does_is_told_in_words(fault, words):
    def answer(request):
        raise fault

    assert refused(fetch(Web(answer), "http://a.org/"), words)


@pytest.mark.parametrize("fault", [OSError("no such name"), UnicodeError("label too long"), []])
def test_a_name_that_is_not_found_is_told_in_words(fault):
    assert refused(fetch(Web(addresses=[fault]), "http://a.org/"), "a.org ")


def test_a_server_that_drips_is_left_after_the_total_time():
    async def drip():
        while True:
            yield b"x"
            await asyncio.sleep(0.01)

    web = Web(lambda request: httpx.Response(200, content=drip()))
    fetcher = web(Rules((Place("*", None),), seconds=0.2))
    with pytest.raises(ToolError, match=r"a\.org took longer than 0\.2 seconds"):
        asyncio.run(fetcher.fetch("GET", httpx.URL("http://a.org/"), ""))


def test_an_episode_has_so_many_requests():
    web = Web()
    with started(Http(allow="a.org", requests=2, fetcher=web)) as box:
        assert call(box, "fetch", url="http://other.org/").status == "error"
        for _ in range(2):
            assert call(box, "fetch", url="http://a.org/").status == "ok"
        assert refused(call(box, "fetch", url="http://a.org/"), "all 2 requests")
        box.start(Task("next"))
        assert call(box, "fetch", url="http://a.org/").status == "ok"
    assert len(web.requests) == 3


def test_a_recorded_episode_is_played_again_without_the_network(tmp_path):
    path, web = tmp_path / "tape.jsonl", Web(lambda request: f"page {len(web.requests)}")
    with started(Http(allow="a.org", cassette=path, mode="record", fetcher=web)) as box:
        first = call(box, "fetch", url="http://a.org/ü#top").content
        assert call(box, "fetch", url="http://a.org/ü").content.endswith("page 1")
        call(box, "fetch", url="http://a.org/other")
    assert len(web.requests) == 2
    silent = Web(lambda request: pytest.fail("the network was touched"))
    path.rename(tmp_path / "moved.jsonl")
    with started(Http(allow="a.org", cassette=tmp_path / "moved.jsonl", fetcher=silent)) as box:
        assert call(box, "fetch", url="http://a.org/ü#top").content == first
        assert refused(call(box, "fetch", url="http://a.org/new"), "was not recorded")
        assert refused(call(box, "fetch", url="http://b.org/"), "b.org is not allowed")
    assert silent.lookups == []


def test_bytes_that_are_no_text_survive_a_cassette(tmp_path):
    body = bytes(range(256))
    web = Web(lambda request: httpx.Response(200, content=body, headers={"content-type": "x/y"}))
    for mode in ("record", "replay"):
        box = Http(allow="*", cassette=tmp_path / "t.jsonl", mode=mode, fetcher=web)
        assert "[256 bytes" in call(box, "fetch", url="http://a.org/").content
    (row,) = map(json.loads, (tmp_path / "t.jsonl").read_text().splitlines())
    assert row["method"] == "GET"
    assert "base64" in row
    assert len(web.requests) == 1


def test_a_damaged_cassette_is_named_but_for_a_last_line_cut_short(tmp_path):
    row = {"method": "GET", "url": "http://a.org/", "body": "", "status": 200}
    good = json.dumps(row | {"from": "http://a.org/", "kind": "", "text": "x"}) + "\n"
    (tmp_path / "cut.jsonl").write_text(good + good[:20])
    assert (
        call(Http(allow="*", cassette=tmp_path / "cut.jsonl"), "fetch", url="http://a.org/").status
        == "ok"
    )
    (tmp_path / "bad.jsonl").write_text(good + "{}\n")
    with pytest.raises(UsageError, match=r"bad\.jsonl:2: no recorded answer"):
        Http(cassette=tmp_path / "bad.jsonl")


ROW = {"method": "GET", "url": "http://a.org/", "body": "", "status": 200, "from": "", "kind": ""}


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        json.dumps(ROW | {"status": math.inf, "text": ""}),
        json.dumps(ROW | {"base64": "!!!"}),
        json.dumps(ROW | {"text": "\ud800"}),
        json.dumps(ROW),
        "\ufeff" + json.dumps(ROW | {"text": ""}),
        "3",
    ],
    ids=["deep", "endless status", "no base64", "half a letter", "no body", "mark", "number"],
)
def test_a_line_that_is_no_answer_is_named(tmp_path, line):
    good = json.dumps(ROW | {"text": "x"})
    (tmp_path / "t.jsonl").write_text(f"{good}\n\n{line}\n{good}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"t\.jsonl:3: no recorded answer"):
        Cassette(tmp_path / "t.jsonl")


@given(st.integers(0, 200), st.booleans())
def test_recording_goes_on_after_a_kill_at_any_byte(cut, ended):
    answer = Answer(200, "http://a.org/", "text/plain", "žluťoučký\n".encode())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.jsonl")
        Cassette(path).keep(("GET", "one", ""), answer)
        whole = path.read_bytes()
        second = whole.replace(b"one", b"two")[:cut]
        path.write_bytes(whole + second if ended else second)
        known = {url for url in ("one", "two") if Cassette(path).find(("GET", url, ""))}
        Cassette(path).keep(("GET", "three", ""), answer)
        again = Cassette(path)
        kept = {url for url in ("one", "two", "three") if again.find(("GET", url, ""))}
        assert kept == known | {"three"}
        assert ("two" in known) == (cut >= len(whole) - 1)
        assert ("one" in known) == ended
        assert path.read_bytes().endswith(b"\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"allow": "http://a.org"}, "no host"),
        ({"allow": ["a.org/path"]}, "no host"),
        ({"allow": "a.*.org"}, "no host"),
        ({"methods": "FETCH"}, "no method 'FETCH'"),
        ({"requests": 0}, "above 0"),
        ({"allow": "a.org:99999"}, "no host"),
        ({"allow": "a.org:0"}, "no host"),
        ({"mode": "record"}, "needs a file to record into"),
        ({"mode": "maybe"}, "replay or record"),
        ({"cassette": "nowhere.jsonl"}, "there is no cassette"),
    ],
)
def test_what_cannot_be_meant_is_refused_when_it_is_asked_for(options, message):
    with pytest.raises(UsageError, match=message):
        Http(**options)


@contextmanager
def server():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.seen.append((self.path, self.headers["host"]))
            self.send_response(302 if self.path == "/away" else 200)
            self.send_header("location", "/here")
            self.send_header("content-type", "text/plain")
            self.end_headers()
            self.wfile.write(self.path.encode())

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        web.seen = []
        thread = threading.Thread(target=functools.partial(web.serve_forever, 0.01))
        thread.start()
        try:
            yield web
        finally:
            web.shutdown()
            thread.join()


def test_a_real_server_is_reached_only_where_private_addresses_are_allowed():
    with server() as web:
        port = web.server_port
        for host in ("127.0.0.1", "localhost"):
            url, allow = f"http://{host}:{port}/away", f"127.0.0.1:{port}, localhost:{port}"
            box = Http(allow=allow)
            assert refused(call(box, "fetch", url=url), "is this machine") or host == "localhost"
            assert web.seen == []
        box = Http(allow=allow, allow_private=True)
        said = call(box, "fetch", url=f"http://127.0.0.1:{port}/away")
        assert said.content.endswith("/here")
        assert web.seen == [(p, f"127.0.0.1:{port}") for p in ("/away", "/here")]


def test_nonsense_is_answered_with_a_message():
    with started(Http(allow="a.org", methods="GET, POST", fetcher=Web())) as box:
        check_manners(box)
    assert re.fullmatch(r"[a-z_]+", next(iter(box.tools())))
