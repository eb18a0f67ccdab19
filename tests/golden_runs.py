"""The golden runs: complete.yaml, and the runs told as a change of it."""

import copy
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "golden" / "runs"
COMPLETE: dict[str, Any] = yaml.safe_load((FOLDER / "complete.yaml").read_text())
VARIANTS: list[dict[str, Any]] = yaml.safe_load((FOLDER / "variants.yaml").read_text())


def events_of(variant: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of complete.yaml with a variant's changes, each with its sequence."""
    events = copy.deepcopy(COMPLETE["events"])
    out = variant.get("without", [])
    events = [event for event in events if event["kind"] not in out]
    events[-1:-1] = variant.get("add", [])
    events += variant.get("after", [])
    for sequence, event in enumerate(events):
        event["sequence"] = sequence
        for name, value in variant.get("change", {}).get(event["kind"], {}).items():
            event["body"][name] = value
            if value == "~gone":
                del event["body"][name]
        for which in ("all", event["kind"]):
            event |= variant.get("columns", {}).get(which, {})
    doubled = variant.get("after_each", [])
    events = [e for event in events for e in [event] * (1 + (event["kind"] in doubled))]
    return [event for event in events if event["kind"] not in variant.get("lost", [])]
