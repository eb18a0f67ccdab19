"""Runs on the screen and as a page, and decisions traced back to their task."""

import copy
import json
from html.parser import HTMLParser
from typing import Any

import pytest
from golden_runs import COMPLETE, events_of
from obstore.store import MemoryStore
from run_samples import NOW_US, Ingest, sliced

from pipeline.errors import LakeError, UsageError
from pipeline.lake.live import read_lake
from pipeline.lake.store import Store
from pipeline.records.listing import children_of
from pipeline.records.page import page
from pipeline.records.reading import RunView, read_run
from pipeline.records.show import WIDTH, run_lines
from pipeline.records.trace import Hop, trace

DAY_US = 86_400_000_000


@pytest.fixture
def store() -> Store:
    return Store(MemoryStore(), "memory")


def view_of(store: Store, events: list[dict[str, Any]], run: str = "run") -> RunView:
    Ingest(store).take_all(events)
    return read_run(read_lake(store), run)


def traced(store: Store, run: str = "run", now_us: int = NOW_US) -> tuple[Hop, ...]:
    lake = read_lake(store)
    return trace(read_run(lake, run), lambda other: read_run(lake, other), None, now_us)


def outline(hops: tuple[Hop, ...]) -> list[tuple[str, bool]]:
    return [(hop.what, hop.holds) for hop in hops]


WHOLE = [("decision", True), ("artifact", True), ("attempt", True), ("task", True)]


def test_a_decision_is_traced_to_its_task_with_evidence_for_each_hop(store: Store) -> None:
    view_of(store, COMPLETE["events"])
    hops = traced(store)
    assert outline(hops) == WHOLE
    assert [hop.event_id for hop in hops] == [f"event-run-{n}" for n in (12, 11, 0, 1)]
    assert all(hop.file and hop.offset is not None and not hop.cost for hop in hops)


def test_a_trace_goes_through_retries_and_parents_to_the_first_task(store: Store) -> None:
    mother = [{**event, "run_id": "mother"} for event in COMPLETE["events"]]
    first = [{**event, "parent_run_id": "mother"} for event in COMPLETE["events"][:1]]
    first[0]["event_id"] = "first-start"
    again = {"attempt": 2, "retry_of": "run", "parent_run_id": "mother"}
    second = [
        {**event, **again, "sequence": n, "event_id": f"again-{n}"}
        for n, event in enumerate(COMPLETE["events"])
    ]
    events = [
        {"sequence": n % 17, "event_id": f"e{n}"} | event
        for n, event in enumerate([*mother, *first, *second])
    ]
    view_of(store, events)
    hops = traced(store)
    assert outline(hops) == [*WHOLE[:2], *[("attempt", True)] * 3, ("task", True)]
    assert [(hop.run_id, hop.attempt) for hop in hops[2:]] == [
        ("run", 2),
        ("run", 1),
        ("mother", 1),
        ("mother", 1),
    ]


REVIEW: list[dict[str, Any]] = [
    {"kind": "run.started", "body": {"trigger": {"type": "review"}}},
    {"kind": "decision.made", "body": {"decision": "merge", "artifacts": ["~"]}},
    {"kind": "run.finished", "body": {"status": "completed"}},
]


def reviewed(store: Store, reference: str, **start: str) -> tuple[Hop, ...]:
    """The trace of a decision of run `review`; `run` is the run of complete.yaml."""
    review = [
        {"run_id": "review", "event_id": f"review-{n}", "sequence": n} | event
        for n, event in enumerate(copy.deepcopy(REVIEW))
    ]
    review[0] |= start
    review[1]["body"]["artifacts"] = [reference]
    ours = [{"sequence": n} | event for n, event in enumerate(COMPLETE["events"])]
    Ingest(store).take_all([*ours, *review])
    lake = read_lake(store)
    return trace(
        read_run(lake, "review"),
        lambda other: read_run(lake, other),
        None,
        NOW_US,
        lambda run: children_of(lake, run),
    )


PATCH = "sha256:" + "8" * 64


@pytest.mark.parametrize("reference", [PATCH, "patch", "patches/1.diff", f"patch@{PATCH}"])
def test_a_decision_downstream_rests_on_an_artifact_of_its_parent(
    store: Store, reference: str
) -> None:
    hops = reviewed(store, reference, parent_run_id="run")
    assert outline(hops) == [*WHOLE[:3], *WHOLE[2:]]
    assert [hop.run_id for hop in hops] == ["review", "run", "review", "run", "run"]


def test_an_artifact_with_another_digest_than_the_decision_names_was_altered(store: Store) -> None:
    last = reviewed(store, f"patch@sha256:{'9' * 64}", parent_run_id="run")[-1]
    assert (last.what, last.holds, last.event_id) == ("artifact", False, "event-run-11")
    assert "not the one that the decision names" in last.detail and last.cost


def test_a_decision_may_rest_on_an_artifact_of_a_child(store: Store) -> None:
    ours = [{"sequence": n} | event for n, event in enumerate(COMPLETE["events"])]
    for event in ours:
        event |= {"artifact.produced": {"run_id": "child", "parent_run_id": "run"}}.get(
            event["kind"], {}
        )
    Ingest(store).take_all(ours)
    lake = read_lake(store)
    assert children_of(lake, "run") == ["child"]
    view = read_run(lake, "run")
    alone = trace(view, lambda other: read_run(lake, other), None, NOW_US)
    assert outline(alone)[-1] == ("artifact", False)
    hops = trace(
        view, lambda other: read_run(lake, other), None, NOW_US, lambda run: children_of(lake, run)
    )
    assert outline(hops) == WHOLE and hops[1].run_id == "child"


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"without": ["decision.made"]}, "decision"),
    ({"without": ["artifact.produced"]}, "artifact"),
    ({"change": {"decision.made": {"artifacts": "~gone"}}}, "artifact"),
    ({"change": {"artifact.produced": {"digest": "sha256:" + "0" * 64}}}, "artifact"),
    ({"change": {"artifact.produced": {"digest": "new"}, "decision.made": {"artifacts": ["new"]}}},
     "artifact"),
    ({"without": ["run.started"]}, "attempt"),
    ({"without": ["task.captured"]}, "task"),
    ({"columns": {"run.started": {"parent_run_id": "nobody"}}}, "attempt"),
]  # fmt: skip


@pytest.mark.parametrize(("variant", "what"), BROKEN)
def test_a_trace_stops_where_a_hop_is_missing_and_says_what_that_costs(
    store: Store, variant: dict[str, Any], what: str
) -> None:
    view_of(store, events_of(variant))
    last = traced(store)[-1]
    assert (last.what, last.holds) == (what, False)
    assert last.cost


@pytest.mark.parametrize("later_us, said", [(0, "removed"), (40 * DAY_US, "expired")])
def test_a_trace_tells_what_has_expired_from_what_was_removed(
    store: Store, later_us: int, said: str
) -> None:
    view = view_of(store, COMPLETE["events"])
    kept = tuple(event for event in view.events if event["kind"] != "artifact.produced")
    view = RunView(view.run_id, view.records, kept, 0, 0)
    last = trace(view, lambda run: view, None, NOW_US + later_us)[-1]
    assert (last.what, last.holds, last.event_id) == ("artifact", False, "event-run-11")
    assert said in last.detail


@pytest.mark.parametrize("kind", ["artifact.produced", "run.started", "task.captured"])
def test_a_trace_stops_at_an_event_that_is_not_what_the_record_was_made_from(
    store: Store, kind: str
) -> None:
    view = view_of(store, COMPLETE["events"])
    altered = [dict(event) for event in view.events]
    for event in altered:
        if event["kind"] == kind:
            event["body"] = event["body"].replace("}", ', "more": 1}', 1)
    view = RunView(view.run_id, view.records, tuple(altered), 0, 0)
    last = trace(view, lambda run: view, None, NOW_US)[-1]
    assert (last.what, last.holds) == ("evidence", False)


def test_an_unknown_run_or_decision_is_wrong_usage(store: Store) -> None:
    view = view_of(store, COMPLETE["events"])
    with pytest.raises(UsageError, match="no run"):
        read_run(read_lake(store), "other")
    with pytest.raises(UsageError, match="no decision"):
        trace(view, lambda run: view, "other", NOW_US)


def test_only_the_slices_of_a_run_are_read(store: Store) -> None:
    ingest = Ingest(store)
    others = [{"run_id": "other", "body": {"text": "x" * 200}} for _ in range(400)]
    ours = [{**event, "sequence": n} for n, event in enumerate(COMPLETE["events"])]
    events = [*others, *ours]
    for at in range(0, 400, 100):
        ingest.take(sliced(events, at, at + 100))
    ingest.take(sliced(events, 400, len(events)))
    lake = read_lake(store)
    for file in lake.files["events"]:
        if not file.path.endswith("5.parquet"):
            store.delete(file.path)  # whoever opens it fails
    assert len(read_run(lake, "run").events) == len(ours)
    with pytest.raises(LakeError):
        read_run(lake, "other")


def test_a_run_that_has_not_ended_is_shown_from_its_events(store: Store) -> None:
    view = view_of(
        store, [{**event, "sequence": n} for n, event in enumerate(COMPLETE["events"][:5])]
    )
    assert view.records == () and len(view.events) == 5
    assert "has not ended" in page(view, NOW_US)


def test_a_run_fits_on_80_columns_and_shows_what_it_lacks(store: Store) -> None:
    events = events_of({"without": ["workspace.captured"]})
    events[5]["name"] = "a name of many words \x1b[31m that does not fit into its column"
    lines = list(run_lines(view_of(store, events), NOW_US))
    assert all(len(line) <= WIDTH and "\x1b" not in line for line in lines)
    text = "\n".join(lines)
    assert "✗ code          missing" in text
    assert "so what was changed before the run cannot be told" in " ".join(text.split())
    assert "100→20t" in text and "▒1" in text and "2000 ms" in text
    assert "completed" in text


def test_what_has_expired_since_is_shown_as_expired(store: Store) -> None:
    events = copy.deepcopy(COMPLETE["events"])
    events[1]["class"] = "debug"
    view = view_of(store, events)
    assert "✓ task          redacted" in "\n".join(run_lines(view, NOW_US))
    assert "✗ task          expired" in "\n".join(run_lines(view, NOW_US + 4 * DAY_US))


class Outline(HTMLParser):
    """What a page is made of: elements with their attributes, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, "elements close in order"

    def handle_data(self, data: str) -> None:
        self.text.append(data)


HOSTILE = "</pre></title><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\0\u2028"


def outline_of(html: str) -> Outline:
    outline = Outline()
    outline.feed(html)
    assert outline.open == []
    return outline


def test_hostile_content_stays_text_on_the_page(store: Store) -> None:
    hostile = {"run_id": HOSTILE, "name": HOSTILE, "call_id": HOSTILE}
    events = [
        {**event, **hostile, "event_id": f"e{n}"} for n, event in enumerate(COMPLETE["events"])
    ]
    events[6] = events[6] | {"body": {HOSTILE: HOSTILE, "half": "\ud800"}, "redacted": [HOSTILE]}
    plain = outline_of(page(view_of(Store(MemoryStore(), "memory"), COMPLETE["events"]), NOW_US))
    view = view_of(store, events, HOSTILE)
    found = outline_of(page(view, NOW_US))
    assert {tag for tag, _ in found.elements} <= {tag for tag, _ in plain.elements} | {"mark"}
    assert not {"script", "img"} & {tag for tag, _ in found.elements}
    assert "<script>alert(1)</script>" in "".join(found.text)


def test_the_page_stands_alone_and_loads_and_runs_nothing(store: Store) -> None:
    html = page(view_of(store, COMPLETE["events"]), NOW_US)
    found = outline_of(html)
    assert not {"script", "link", "iframe", "object", "form"} & {tag for tag, _ in found.elements}
    for _, attributes in found.elements:
        assert not any(name.startswith("on") or name == "src" for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    policy = next(a["content"] for t, a in found.elements if a.get("http-equiv"))
    assert policy and "default-src 'none'" in policy


def test_the_page_can_be_read_by_keyboard_and_screen_reader(store: Store) -> None:
    events = events_of({"without": ["workspace.captured"]})
    found = outline_of(page(view_of(store, events), NOW_US))
    tags = [tag for tag, _ in found.elements]
    assert {"main", "nav", "header", "h1", "h2", "h3", "title"} <= set(tags)
    assert ("html", {"lang": "en"}) in found.elements
    assert tags.count("table") == tags.count("caption") > 0
    assert all(a.get("scope") in ("col", "row") for tag, a in found.elements if tag == "th")
    ids = {a["id"] for _, a in found.elements if a.get("id")}
    named = [a for _, a in found.elements if a.get("aria-labelledby")]
    assert named and all(a["aria-labelledby"] in ids for a in named)
    links = [(a.get("href") or "")[1:] for tag, a in found.elements if tag == "a"]
    assert links and set(links) <= ids


def test_masks_are_marked_in_place_with_their_rule(store: Store) -> None:
    view = view_of(store, COMPLETE["events"])
    body = json.dumps({"from": "ask [EMAIL] now"})
    redaction = {"path": "/from", "rule": "email", "layers": [], "span_start": 4, "span_end": 11}
    task = dict(view.events[1]) | {"body": body, "redactions": [redaction]}
    html = page(RunView("run", (), (task,), 0, 0), NOW_US)
    assert 'ask <mark title="masked by email">[EMAIL]</mark> now' in html
