"""How fast the redactor is, beside what else one would run: ratios on one core, from one run.

    python benchmarks/bench_redact.py [--events 2000] [--rounds 5] [--out benchmarks/results]

It makes its own seeded agent events, pins itself to one core, and runs every contender on the same
events in turn, round after round, so that a busy machine slows all of them.  A peer is run where it
is installed (Presidio as a package; kingfisher and gitleaks as commands, from PyPI's
`kingfisher-bin` and by `go install`), and named as absent where it is not.  These two scanners get
a file with an event a line; their start is taken off.  Writes `redact.md` and, with matplotlib,
`redact.png`.  Rates are CPU time; quote the ratios, not the rates.
"""

import argparse
import importlib.util
import json
import os
import random
import resource
import shutil
import statistics
import string
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from redactors import KeyRing, Redactor, load_ruleset

WORDS = (
    *("agent", "file", "build", "step", "queue", "worker", "schema", "table", "record", "column"),
    *("region", "version", "release", "branch", "commit", "review", "memory", "latency", "request"),
    *("handler", "module", "method", "index", "cluster", "timeout", "retry", "cache", "status"),
    *("report", "invoice", "parcel", "carrier", "warehouse", "label", "driver", "route", "depot"),
)
PRESIDIO = "Presidio patterns"
KINGFISHER = ("kingfisher", "scan", "--no-validate", "--no-update-check", "--jobs", "1")
SCANNERS = {
    "kingfisher scan": (*KINGFISHER, "--no-base64"),
    "kingfisher turbo": (*KINGFISHER, "--turbo"),
    "gitleaks scan": ("gitleaks", "dir", "--no-banner", "--exit-code", "0"),
}
"""Commands that scan a folder and mask nothing."""
REPEATS = 10
"""How often a scanner gets the events: its start takes as long as thousands of them."""

FOUND = 200
"""The exit code of kingfisher where it has found something."""

TARGETS = {
    "orjson round trip": 0.2, "kingfisher scan": 1.3, "kingfisher turbo": 1.0,
    "gitleaks scan": 60.0, PRESIDIO: 500.0,
}  # fmt: skip

CLEAN_TARGETS = {"orjson round trip": 0.4}


def events(count: int, seed: int, dirty: float) -> list[str]:
    """Agent events as JSON texts of 0.5 to 9 KB; a share `dirty` holds a secret or an address."""
    rng = random.Random(seed)
    return [event(rng, at, rng.random() < dirty) for at in range(count)]


def event(rng: random.Random, sequence: int, dirty: bool) -> str:
    """One tool result, model message or log line."""
    size = rng.choice((500, 1000, 1500, 2500, 3500, 9000))
    body = prose(rng, size) if rng.random() < 0.6 else log_lines(rng, size)
    fields: dict[str, Any] = {"took_ms": rng.randint(1, 9000), "next_token": None}
    if dirty:
        body, fields = planted(rng, body, fields)
    return json.dumps(
        {
            "event_id": uuid(rng), "run_id": uuid(rng), "sequence": sequence,
            "tool": {"name": rng.choice(("bash", "read_file", "sql")), "call_id": hexes(rng, 24)},
            "result": {"stdout": body, "exit_code": 0, **fields},
            "usage": {"input_tokens": rng.randint(10, 90_000), "output_tokens": 512},
        }
    )  # fmt: skip


def planted(rng: random.Random, body: str, fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The body or the fields with something in them that must be masked."""
    alphabet = string.ascii_uppercase + "234567"
    choice = rng.randrange(4)
    if choice == 0:
        return f"{body}\nexport AWS_ACCESS_KEY_ID=AKIA{letters(rng, 16, alphabet)}", fields
    if choice == 1:
        return f"{body}\nfrom {letters(rng, 8, string.ascii_lowercase)}@mail.example.org", fields
    if choice == 2:
        return body, {**fields, "db_password": letters(rng, 14, string.ascii_letters + "!#.7")}
    return f"{body}\n> Authorization: Bearer {letters(rng, 40, string.ascii_letters)}9", fields


def prose(rng: random.Random, size: int) -> str:
    return " ".join(rng.choices(WORDS, k=size // 7)) + "."


def log_lines(rng: random.Random, size: int) -> str:
    return "\n".join(
        f"2026-05-{rng.randint(10, 28)}T10:{rng.randint(10, 59)}:00Z INFO {rng.choice(WORDS)} "
        f"id={uuid(rng)} took={rng.randint(1, 900)}ms {rng.choice(WORDS)}"
        for _ in range(size // 90)
    )


def uuid(rng: random.Random) -> str:
    return "-".join(hexes(rng, length) for length in (8, 4, 4, 4, 12))


def hexes(rng: random.Random, length: int) -> str:
    return letters(rng, length, "0123456789abcdef")


def letters(rng: random.Random, length: int, alphabet: str) -> str:
    return "".join(rng.choices(alphabet, k=length))


def contenders(redactor: Redactor) -> Iterator[tuple[str, Callable[[str], object], float]]:
    """Name, what it does with one event, and the share of the events that it is given."""
    yield "redactory", redactor.redact_json, 1.0
    yield "orjson round trip", lambda text: orjson.dumps(orjson.loads(text)), 1.0
    if importlib.util.find_spec("presidio_analyzer"):
        yield PRESIDIO, presidio_patterns(), 0.02


def absent() -> list[str]:
    """The peers that cannot be run here."""
    missing = [name for name, command in SCANNERS.items() if shutil.which(command[0]) is None]
    return missing + [PRESIDIO] * (importlib.util.find_spec("presidio_analyzer") is None)


def scanner_rate(command: tuple[str, ...], texts: list[str]) -> float:
    """Events a second of CPU time of a command that scans them, its start taken off."""
    spent_s, many = [], texts * REPEATS
    for part in (texts[:1], many):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "events.jsonl").write_text("\n".join(part) + "\n")
            before_s = _children_s()
            done = subprocess.run([*command, folder], capture_output=True)
            assert done.returncode in (0, FOUND), done.returncode
            spent_s.append(_children_s() - before_s)
    return len(many) / (spent_s[1] - spent_s[0])


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def presidio_patterns() -> Callable[[str], object]:
    """Presidio's own pattern recognisers for the six commonest entities, without a model."""
    from presidio_analyzer import predefined_recognizers as own

    found = [
        own.EmailRecognizer(), own.CreditCardRecognizer(), own.IbanRecognizer(),
        own.UsSsnRecognizer(), own.IpRecognizer(), own.PhoneRecognizer(),
    ]  # fmt: skip
    return lambda text: [r.analyze(text, r.supported_entities, None) for r in found]


def rate(function: Callable[[str], object], texts: list[str]) -> float:
    """Events a second of CPU time."""
    started = time.process_time()
    for text in texts:
        function(text)
    return len(texts) / (time.process_time() - started)


def measured(redactor: Redactor, texts: list[str], rounds: int) -> dict[str, list[float]]:
    """The rates of every contender, one a round."""
    rates: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, function, share in contenders(redactor):
            rates.setdefault(name, []).append(
                rate(function, texts[: max(1, int(len(texts) * share))])
            )
        for name, command in SCANNERS.items():
            if shutil.which(command[0]):
                rates.setdefault(name, []).append(scanner_rate(command, texts))
    return rates


def table(title: str, rates: dict[str, list[float]], targets: dict[str, float]) -> list[str]:
    """The rates, and how redactory's compares with each, median and spread."""
    own = rates["redactory"]
    lines = [
        f"## {title}",
        "",
        "| contender | events/s | redactory is | target |",
        "|---|---|---|---|",
    ]
    for name, theirs in rates.items():
        ratios = [mine / other for mine, other in zip(own, theirs, strict=True)]
        spread = f"{statistics.median(ratios):.3g} × ({min(ratios):.3g}–{max(ratios):.3g})"
        target = f"≥ {targets[name]:g} ×" if name in targets else ""
        lines.append(f"| {name} | {statistics.median(theirs):,.0f} | {spread} | {target} |")
    return [*lines, ""]


def plot(rates: dict[str, list[float]], path: Path) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3))
    axes.barh(list(rates), [statistics.median(each) for each in rates.values()])
    axes.set_xscale("log")
    axes.set_xlabel("events per second of CPU time, one core, mixed events")
    figure.tight_layout()
    figure.savefig(path)


def memory_kb(redactor: Redactor, texts: list[str]) -> tuple[int, int]:
    """The highest resident size after one pass over the events and after three more."""
    readings = []
    for passes in (1, 3):
        for _ in range(passes):
            for text in texts:
                redactor.redact_json(text)
        readings.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return readings[0], readings[1]


def main() -> None:
    """Runs the benchmark and prints its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    started = time.perf_counter()
    redactor = Redactor(load_ruleset(), KeyRing("bench", {"bench": bytes(range(32))}))
    start_s = time.perf_counter() - started
    mixed = measured(redactor, events(given.events, given.seed, 0.13), given.rounds)
    clean = measured(redactor, events(given.events, given.seed + 1, 0.0), given.rounds)
    before, after = memory_kb(redactor, events(given.events, given.seed + 2, 0.13))
    lines = [
        "# Redaction speed", "", f"{given.events} events, {given.rounds} rounds, one core.", "",
        *table("Mixed events, 13 % with something to mask", mixed, TARGETS),
        *table("Clean events", clean, CLEAN_TARGETS),
        *(f"Absent, as it is not installed: {name}.\n" for name in absent()),
        f"Start (load, prove and compile all rules): {start_s:.2f} s.",
        f"Memory: {before:,} KB after one pass, {after:,} KB after four.",
    ]  # fmt: skip
    given.out.mkdir(parents=True, exist_ok=True)
    text = "\n".join(lines) + "\n"
    (given.out / "redact.md").write_text(text)
    plot(mixed, given.out / "redact.png")
    print(text)


if __name__ == "__main__":
    main()
