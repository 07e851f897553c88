"""A real browser without a window: what a page asks for, complains about, and looks like.

In    a page in a file, or an address
Out   Page: console errors, requests beside the page itself, values of JavaScript, pictures
Not   a driver for other browsers: Chromium alone, by its own debugging protocol
"""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking"),
    *("--disable-component-update", "--hide-scrollbars", "--remote-debugging-port=0"),
)
PATIENCE = 60.0
"""Seconds after which an answer is no longer waited for."""


@dataclass
class Page:
    """One tab."""

    browser: Browser
    session: str
    url: str
    errors: list[str] = field(default_factory=list)
    """What the console complained about, and exceptions that nobody caught."""
    requests: list[str] = field(default_factory=list)
    """Addresses beside the page's own that were asked for; data: is none."""

    def js(self, expression: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        found = self._call(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.js(f"!!({condition})"):
            assert time.monotonic() < end, (condition, self.errors)
            time.sleep(0.02)

    def press(self, key: str, code: int = 0) -> None:
        """Press a key: one character, or a name such as Enter with its code."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        # The code of a letter or a digit is its own; that of a full stop would be Delete.
        own = ord(key.upper()) if len(key) == 1 and key.isalnum() else 0
        named = {"key": key, "windowsVirtualKeyCode": code or own}
        self._call("Input.dispatchKeyEvent", type="keyDown", **named, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", **named)

    def look(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show the page in that size and theme."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[theme])

    def picture(self, path: Path, *, whole: bool = True) -> Path:
        """The page as a PNG, whole or what the window shows."""
        found = self._call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole, fromSurface=True
        )
        path.write_bytes(base64.b64decode(found["data"]))
        return path

    def close(self) -> None:
        """Close the tab."""
        self._call("Page.close")

    def _call(self, method: str, **how: Any) -> Any:
        return self.browser.call(method, session=self.session, **how)

    def _heard(self, event: dict[str, Any]) -> None:
        kind, what = event["method"], event["params"]
        if kind == "Runtime.exceptionThrown":
            self.errors.append(str(what["exceptionDetails"]))
        elif kind == "Runtime.consoleAPICalled" and what["type"] in ("error", "assert", "warning"):
            self.errors.append(str(what["args"]))
        elif kind == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.errors.append(what["entry"]["text"])
        elif kind == "Network.requestWillBeSent":
            url = what["request"]["url"]
            if url.partition("#")[0] != self.url and not url.startswith("data:"):
                self.requests.append(url)


@dataclass
class Browser:
    """A running Chromium."""

    socket: Any
    pages: dict[str, Page] = field(default_factory=dict)
    loaded: set[str] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def open(self, where: Path | str, **look: Any) -> Page:
        """A tab with a file or an address, once all of it is there; `look` says how it is shown."""
        url = where.absolute().as_uri() if isinstance(where, Path) else where
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session, url.partition("#")[0])
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable", session=session)
        page.look(**look)
        self.loaded.discard(session)
        self.call("Page.navigate", session=session, url=url)
        end = time.monotonic() + PATIENCE
        while session not in self.loaded:
            self._hear(end)
        return page

    def call(self, method: str, *, session: str = "", **how: Any) -> Any:
        """Ask the browser for something; what happens meanwhile is noted."""
        number = next(self.numbers)
        asked = {"id": number, "method": method, "params": how}
        self.socket.send(json.dumps(asked | ({"sessionId": session} if session else {})))
        end = time.monotonic() + PATIENCE
        while True:
            found = self._hear(end)
            if found.get("id") == number:
                assert "error" not in found, (method, found["error"])
                return found["result"]

    def _hear(self, end: float) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.socket.recv(timeout=end - time.monotonic()))
        session = found.get("sessionId", "")
        if found.get("method") == "Page.loadEventFired":
            self.loaded.add(session)
        elif "method" in found and session in self.pages:
            self.pages[session]._heard(found)
        return found


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser for a block; where there is none, the test is skipped."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium here")
    connect = pytest.importorskip("websockets.sync.client").connect
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [path, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with connect(_address(Path(folder), process), max_size=None) as socket:
                yield Browser(socket)
                Browser(socket).call("Browser.close")
        finally:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address(folder: Path, process: subprocess.Popen[bytes]) -> str:
    """Where it listens: it writes that down once it does."""
    path, end = folder / "DevToolsActivePort", time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        lines = path.read_text().split() if path.exists() else []
        if len(lines) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(0.05)
    pytest.skip("Chromium does not start here")


COLOURS = """
(() => {
  const parsed = text => {
    const canvas = parsed.context ??= document.createElement('canvas').getContext('2d',
      {willReadFrequently: true});
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) =>
    [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const ground = element => {
    const chain = [];
    for (let at = element; at; at = at.parentElement) chain.push(at);
    let colour = parsed('canvas');
    for (const at of chain.reverse()) {
      const own = getComputedStyle(at).backgroundColor;
      colour = over(parsed(own), colour);
    }
    return colour;
  };
  const light = c => {
    const [r, g, b] = c.slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  for (const element of document.body.querySelectorAll('*')) {
    const said = [...element.childNodes]
      .filter(n => n.nodeType === 3 && n.textContent.trim()).map(n => n.textContent).join(' ');
    if (!said || !element.checkVisibility({visibilityProperty: true, opacityProperty: true}))
      continue;
    const style = getComputedStyle(element);
    const below = ground(element);
    const inSvg = element instanceof SVGElement;
    const top = over(parsed(inSvg ? style.fill : style.color), below);
    const [a, b] = [light(top), light(below)].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (large ? 3 : 4.5)) found.push([said.trim().slice(0, 60), ratio]);
  }
  return found;
})()
"""


def faint(page: Page) -> list[list[Any]]:
    """Words of the page whose contrast to what is behind them is below WCAG's AA, with the ratio.

    Grounds that are pictures, and what a chart draws below its words, are not seen.
    """
    found: list[list[Any]] = page.js(COLOURS)
    return found


def nameless(page: Page) -> list[str]:
    """Pictures, buttons, fields and links without words for those who cannot see them."""
    found: list[str] = page.js(
        """[...document.querySelectorAll('img, svg, canvas, button, a, input, select, summary')]
        .filter(e => !e.closest('[aria-hidden=true]') && !e.closest('svg svg'))
        .filter(e => !(e.getAttribute('aria-label') || e.alt || e.textContent.trim() ||
          (e.labels && e.labels.length) || e.getAttribute('aria-labelledby')))
        .map(e => e.outerHTML.slice(0, 80))"""
    )
    return found
