"""What the other tests see with: a page with every fault shows each of them."""

import pytest

from tests.browser import browsing, faint, nameless

FAULTY = """<!doctype html><html lang="en"><title>x</title><body style="background:#fff">
<p style="color:#999">too faint</p><p style="color:light-dark(#222, #fff)">dark on white</p>
<img src="http://127.0.0.1:65432/x.png"><button id="b" onclick="this.textContent = 1">0</button>
<script>
console.error("no");
document.onkeydown = e => { document.title = e.key };
</script></body></html>"""


@pytest.fixture(scope="module")
def browser():
    with browsing() as found:
        yield found


def test_what_is_wrong_with_a_page_is_seen(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(FAULTY)
    page = browser.open(path, width=400)
    assert any("'no'" in text for text in page.errors)
    assert page.requests == ["http://127.0.0.1:65432/x.png"]
    assert [said for said, _ in faint(page)] == ["too faint"]
    assert [text[:4] for text in nameless(page)] == ["<img"]
    page.close()


def test_a_page_is_used_as_a_person_uses_it(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(FAULTY)
    page = browser.open(path, width=400, dark=True)
    assert page.js("innerWidth") == 400
    assert page.js("matchMedia('(prefers-color-scheme: dark)').matches")
    page.press("ArrowRight", 39)
    assert page.js("document.title") == "ArrowRight"
    page.js("document.getElementById('b').focus()")
    page.press("Enter", 13)
    assert page.js("document.getElementById('b').textContent") == "1"
    assert page.picture(tmp_path / "page.png").read_bytes()[1:4] == b"PNG"
    page.close()
