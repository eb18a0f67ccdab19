"""A headless Chromium, spoken to over a pipe in the protocol of its developer tools."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip

CONTRAST = """
(() => {
  const numbers = c => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = c => numbers(c).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor, n = numbers(c);
      if (n.length < 4 || n[3] > 0) return c;
    }
    return 'rgb(255, 255, 255)';
  };
  let least = 99, where = '', count = 0;
  for (const e of document.body.querySelectorAll('*')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    count += 1;
    if (ratio < least) [least, where] = [ratio, e.className + ' ' + e.tagName];
  }
  return {least, where, count};
})()
"""
"""The least contrast of a text with its ground, where it is, and how many texts there are."""


def find_chromium() -> str | None:
    """Where a Chromium is, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One page of a running browser; `requests` are the addresses that it asked for."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._left, self._number, self._session = b"", 0, ""
        self.requests: list[str] = []
        self._loaded = 0
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Accessibility"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a command."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            pass
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, address: str) -> None:
        """Shows an address; returns once it is loaded."""
        before = self._loaded
        self.call("Page.navigate", url=address)
        while self._loaded == before:
            self._next()

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression in the page, as JSON."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        """A key of the keyboard, down and up again."""
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def prefer(self, scheme: str) -> None:
        """Sets the colour scheme that the person prefers."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def resize(self, width: int, height: int) -> None:
        """Sets the size of the window, in CSS pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def screenshot(self) -> bytes:
        """The window as a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def roles(self) -> list[tuple[str, str]]:
        """(role, name) of whatever a screen reader finds, in order."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node["ignored"]
        ]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            data = os.read(self._from, 1 << 20)
            assert data, "the browser has ended"
            self._left += data
        text, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        self._loaded += message.get("method") == "Page.loadEventFired"
        return message


@contextmanager
def running(program: str) -> Iterator[Page]:
    """A browser with a profile of its own; ends with the block."""
    read_end, to_browser = os.pipe()
    from_browser, write_end = os.pipe()
    # The browser reads its commands from descriptor 3 and answers on 4.
    script = f'exec "$@" 3<&{read_end} 4>&{write_end}'
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        browser = subprocess.Popen(
            ["bash", "-c", script, "chromium", *command],
            pass_fds=(read_end, write_end),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": str(Path(profile))},
        )
        os.close(read_end)
        os.close(write_end)
        try:
            yield Page(to_browser, from_browser)
        finally:
            browser.terminate()
            browser.wait()
            os.close(to_browser)
            os.close(from_browser)
