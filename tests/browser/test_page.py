"""The page of a run in a real browser: what is seen, what is heard, what the keyboard does."""

import io
import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import matplotlib.image
import pytest
from browser.chromium import CONTRAST, Page
from demo_lake import demo_lake
from golden_runs import COMPLETE
from run_samples import NOW_US, Ingest

from pipeline.lake.live import read_lake
from pipeline.lake.store import Store
from pipeline.records.listing import Filters, list_runs
from pipeline.records.page import page
from pipeline.records.reading import read_run


@pytest.fixture(scope="module")
def demo_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the demo that failed and was tried again."""
    folder, now_us = tmp_path_factory.mktemp("page"), time.time_ns() // 1_000
    lake = demo_lake(folder / "lake", now_us, runs=5)
    (failed,) = list_runs(lake, Filters(status="failed"))
    path = folder / "run.html"
    path.write_text(page(read_run(lake, failed["run_id"]), now_us))
    return path


@pytest.fixture
def shown(browser: Page, demo_page: Path) -> Page:
    browser.resize(1200, 900)
    browser.prefer("light")
    browser.requests.clear()
    browser.open(demo_page.as_uri())
    return browser


def test_it_is_drawn_in_light_and_in_dark(shown: Page) -> None:
    light = _pixels(shown)
    shown.prefer("dark")
    dark = _pixels(shown)
    assert light.shape[:2] == (900, 1200)
    assert light.mean() > 0.8 and dark.mean() < 0.3
    assert len({tuple(pixel) for pixel in light.reshape(-1, light.shape[2])[::50]}) > 5


def _pixels(page: Page) -> Any:
    return matplotlib.image.imread(io.BytesIO(page.screenshot()), format="png")[:, :, :3]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_told_from_its_ground(shown: Page, scheme: str) -> None:
    shown.prefer(scheme)
    found = shown.evaluate(CONTRAST)
    assert found["count"] > 100
    assert found["least"] >= 4.5, found  # WCAG 2.2, 1.4.3


@pytest.mark.parametrize("width", [320, 1200])
def test_nothing_is_wider_than_the_window(shown: Page, width: int) -> None:
    shown.resize(width, 900)
    assert shown.evaluate("document.documentElement.scrollWidth") <= width


def test_a_screen_reader_finds_headings_rows_and_steps(shown: Page) -> None:
    roles = shown.roles()
    headings = [name for role, name in roles if role == "heading"]
    assert headings[0].startswith("Run ")
    assert {"Record", "Task snapshot", "Decisions and effects", "Timeline"} < set(headings)
    kinds = {role for role, _ in roles}
    assert {"main", "navigation", "banner", "contentinfo", "region", "table", "mark"} <= kinds
    table = [name for role, name in roles if role == "table"]
    assert set(table) == {"What is missing, and what that costs"}
    steps = [name for role, name in roles if role == "DisclosureTriangle"]
    assert len(steps) == 44
    assert steps[0].split() == ["Step", "0", "after", "0.00", "s", "run.started"]


def test_the_keyboard_alone_reaches_and_opens_a_step(shown: Page) -> None:
    focused = "document.activeElement.tagName + ' ' + document.activeElement.className"
    seen = []
    for _ in range(40):
        shown.press("Tab", 9)
        seen.append(shown.evaluate(focused).strip())
        if seen[-1] == "SUMMARY":
            break
    assert seen[0] == "A skip" and seen[-1] == "SUMMARY"
    is_open = "document.activeElement.parentElement.open"
    assert not shown.evaluate(is_open)
    shown.press("Enter", 13, text="\r")
    assert shown.evaluate(is_open)
    ring = shown.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert ring == "solid"


def test_masks_stand_in_place_with_their_rule(shown: Page) -> None:
    marks = shown.evaluate("[...document.querySelectorAll('#task mark')].map(m => m.title)")
    assert {"masked by email", "masked by phone-international"} <= set(marks)
    text = shown.evaluate("document.querySelector('#task pre').textContent")
    assert json.loads(text)["task"]["from"].startswith("[EMAIL:")


def test_it_asks_for_nothing_but_itself(shown: Page, demo_page: Path) -> None:
    assert shown.requests == [demo_page.as_uri()]


@pytest.fixture
def outside() -> Iterator[tuple[str, list[str]]]:
    """A server, and what it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_hostile_content_neither_runs_nor_loads_nor_leaves_its_place(
    browser: Page, outside: tuple[str, list[str]], tmp_path: Path
) -> None:
    address, asked = outside
    hostile = (
        f"</pre></mark></style></title><script>document.title='run'</script>"
        f"<img src={address}/img onerror=\"document.title='run'\"><style>@import '{address}/css';"
        f"</style><iframe src='{address}/frame'></iframe>\"'{{{{7*7}}}}{{% raw %}}"
    )
    ours = {"run_id": hostile, "name": hostile, "call_id": hostile, "redacted": [hostile]}
    events = [
        {**event, **ours, "event_id": f"e{n}", "body": {**event.get("body", {}), hostile: hostile}}
        for n, event in enumerate(COMPLETE["events"])
    ]
    store = Store.open(tmp_path / "lake", create=True)
    Ingest(store).take_all(events)
    path = tmp_path / "hostile.html"
    path.write_text(page(read_run(read_lake(store), hostile), NOW_US))
    browser.requests.clear()
    browser.open(path.as_uri())
    assert browser.evaluate("document.title") == f"Run {hostile}"
    assert browser.evaluate("document.querySelectorAll('script, img, iframe, object').length") == 0
    assert browser.evaluate("document.querySelectorAll('style').length") == 1
    assert browser.evaluate("document.querySelectorAll('main > section').length") == 4
    assert hostile in browser.evaluate("document.querySelector('#timeline').textContent")
    assert (browser.requests, asked) == ([path.as_uri()], [])
