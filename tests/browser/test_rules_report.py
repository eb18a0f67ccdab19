"""The page of a review of rules in a real browser."""

import io
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest
from browser.chromium import CONTRAST, Page
from demo_lake import demo_lake
from rescrub_samples import NOW_US

from pipeline.review.report.page import page
from pipeline.review.report.review import review
from redactors import load_ruleset
from redactors.ruleset import Allow

SEARCH = """
(() => {
  const box = document.getElementById('search');
  box.value = WORDS;
  box.dispatchEvent(new Event('input'));
  return [...document.querySelectorAll('#rules tbody tr:not([hidden]) th')]
    .filter(e => e.checkVisibility()).map(e => e.textContent);
})()
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built-in rules, and allowances, over runs of the demo."""
    folder = tmp_path_factory.mktemp("report")
    lake = demo_lake(folder / "lake", NOW_US, runs=5)
    allow = (Allow(value="tickets", reason="a queue"), Allow(pattern="[A-Z]{40}", reason="none"))
    rules = load_ruleset().model_copy(update={"allow": allow})
    found = review(lake, rules, None, NOW_US, lambda done, total: None)
    path = folder / "report.html"
    path.write_text(page(found))
    return path


@pytest.fixture
def shown(browser: Page, report: Path) -> Page:
    browser.resize(1200, 900)
    browser.prefer("light")
    browser.requests.clear()
    browser.open(report.as_uri())
    return browser


def test_it_is_drawn_in_light_and_in_dark(shown: Page) -> None:
    light = _pixels(shown)
    shown.prefer("dark")
    assert light.mean() > 0.8 and _pixels(shown).mean() < 0.3


def _pixels(page: Page) -> Any:
    return matplotlib.image.imread(io.BytesIO(page.screenshot()), format="png")[:, :, :3]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_told_from_its_ground(shown: Page, scheme: str) -> None:
    shown.prefer(scheme)
    found = shown.evaluate(CONTRAST)
    assert found["count"] > 500
    assert found["least"] >= 4.5, found  # WCAG 2.2, 1.4.3


@pytest.mark.parametrize("width", [320, 1200])
def test_nothing_is_wider_than_the_window(shown: Page, width: int) -> None:
    shown.resize(width, 900)
    assert shown.evaluate("document.documentElement.scrollWidth") <= width


def test_a_screen_reader_finds_landmarks_tables_and_charts(shown: Page) -> None:
    roles = shown.roles()
    kinds = {role for role, _ in roles}
    assert {"main", "navigation", "banner", "contentinfo", "region", "search", "table"} <= kinds
    names = {name for role, name in roles if role == "table"}
    assert (
        any(name.startswith("Patterns that masked something") for name in names) and "" not in names
    )
    assert "columnheader" in kinds and "rowheader" in kinds
    drawn = [name for role, name in roles if role == "image"]
    assert drawn and all("at most" in name for name in drawn)


def test_a_search_leaves_the_rows_that_hold_all_its_words(shown: Page) -> None:
    found = shown.evaluate(SEARCH.replace("WORDS", "'github token'"))
    assert "github-token" in found and len(found) < 10  # also a rule that masked nothing
    assert shown.evaluate("document.getElementById('found').textContent").endswith("rows")
    everything = shown.evaluate(SEARCH.replace("WORDS", "''"))
    assert len(everything) < 20  # those that masked nothing are folded away again


def test_a_search_may_be_of_any_signs_and_runs_nothing(shown: Page) -> None:
    hostile = "'<img src=x onerror=document.title=1>'"
    assert shown.evaluate(SEARCH.replace("WORDS", hostile)) == []
    assert shown.evaluate("document.title").startswith("Rules")


def test_no_other_script_may_run_and_nothing_is_asked_for(shown: Page, report: Path) -> None:
    shown.evaluate(
        "(() => { const s = document.createElement('script'); s.textContent = 'document.title = 1';"
        "document.body.append(s); })()"
    )
    assert shown.evaluate("document.title").startswith("Rules")
    assert shown.requests == [report.as_uri()]


def test_on_paper_everything_is_open(shown: Page) -> None:
    shown.evaluate("dispatchEvent(new Event('beforeprint')) && 1")
    assert shown.evaluate("document.querySelectorAll('details:not([open])').length") == 0
