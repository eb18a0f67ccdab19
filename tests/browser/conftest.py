"""One browser for the tests of a file."""

from collections.abc import Iterator

import pytest
from browser.chromium import Page, find_chromium, running


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium here (`make browser` installs it where apt-get can)")
    with running(program) as shown:
        yield shown
