"""Recall of the built-in rules on labelled samples, per source, and what is missed by kind.

    python benchmarks/labelled.py FOLDER [--json]

FOLDER holds `<source>.jsonl.gz`, one JSON object a line: `rule` (the kind), `text`, `secret` (or
`secrets`), `positive`, `scored`.  A row counts as found when none of its secrets is left in the
masked text, given once as a text of its own and once inside a JSON value.  Rows of personal
numbers (kinds that end in `_checksum` and the like) are given as `<name of the id>: <text>`.
Nothing of a sample is ever printed: kinds, counts and reasons only.
"""

import argparse
import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redactors import KeyRing, Redactor, load_ruleset

NUMBERS = "datadog-sds"
"""The source whose rows are bare numbers, meaningful only beside the name of the id."""

NO_PERSONAL_NUMBER = {
    "atlassian_token_checksum",
    "entropy",
    "github_token_checksum",
    "jwt_claims_validator",
    "token_efficiency",
}

# Why a kind is missed: the first part of its name that stands here decides.
REASONS = {
    "weak_password": "a bare word without any context: masking it would mask prose",
    "netrc": "the host is stated as the secret; login and password are masked",
    "odbc": "a user name outside its connection string is stated as the secret",
    "azure": "the name of an account or policy is stated, not its key",
    "age": "a public key is stated as the secret",
    "linkedin": "a word of prose is stated as the secret",
    "twitter": "a public id is stated as the secret",
    "snowflake": "an account or user name is stated as the secret",
    "sonarqube": "the address of a server is stated as the secret",
    "sidekiq": "two short words of hex without a name that says secret",
    "vmware": "a variable is stated as the secret",
    "generic": "a user or setting name is stated as the secret",
    "aba": "five letters and digits fewer than the id has",
    "nir": "the labels contradict the official check digits",
    "slovenia": "the labels contradict the official check digits",
    "iso": "not enough digits to tell it from a phrase",
    "luhn": "letters and pictures inside the number",
    "rodne": "a number from before 1954, which has no check digit",
    "brazilian": "the number is cut in the sample",
    "france": "a letter inside the number",
    "btc": "an escape is glued to the address",
    "kubernetes": "a manifest whose data stands before its kind, in broken YAML",
}
OTHERWISE = "a shape of its vendor's own that no rule knows, or too short to tell from words"


@dataclass(frozen=True, slots=True)
class Score:
    """How many of a source's rows were found as text and in JSON, and the kinds of the others."""

    source: str
    rows: int
    found_in_text: int
    found_in_json: int
    missed: Counter[str]
    touched_negatives: int
    negatives: int

    @property
    def recall(self) -> float:
        """The worse of the two ways, 0 to 1."""
        return min(self.found_in_text, self.found_in_json) / self.rows if self.rows else 1.0


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of one source."""
    with gzip.open(path, "rt") as lines:
        yield from map(json.loads, lines)


def score(redactor: Redactor, source: str, rows: Iterable[dict[str, Any]]) -> Score:
    """Masks every row both ways and counts what is left."""
    in_text = in_json = total = negatives = touched = 0
    missed: Counter[str] = Counter()
    for row in rows:
        if source == NUMBERS and row["rule"] in NO_PERSONAL_NUMBER:
            continue
        text = _as_given(source, row)
        masked = redactor.redact_text(text).text
        if not row["positive"]:
            negatives += 1
            touched += masked != text
        if not row["scored"]:
            continue
        total += 1
        secrets = row.get("secrets") or [row["secret"]]
        document = redactor.redact_json(json.dumps({"role": "tool", "content": text})).text
        inside = json.loads(document)["content"]
        found = [all(secret not in out for secret in secrets) for out in (masked, inside)]
        in_text += found[0]
        in_json += found[1]
        if not all(found):
            missed[row["rule"]] += 1
    return Score(source, total, in_text, in_json, missed, touched, negatives)


def _as_given(source: str, row: dict[str, Any]) -> str:
    """The text of a row; a personal number stands beside the name of its id."""
    if source != NUMBERS:
        return str(row["text"])
    name = row["rule"]
    for ending in ("_checksum", "_check_digit", "_checker", "_format_check", "_address"):
        name = name.removesuffix(ending)
    return f"{name.replace('_', ' ')}: {row['text']}"


def reason_for(kind: str) -> str:
    """Why rows of this kind are missed."""
    parts = kind.replace("-", ".").replace("_checksum", "").split(".")
    named = [*parts, *(word for part in parts for word in part.split("_"))]
    return next((REASONS[name] for name in named if name in REASONS), OTHERWISE)


def main() -> int:
    """Prints a table, or JSON, for every source in the folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    files = sorted(options.folder.glob("*.jsonl.gz"))
    if not files:
        print(f"no *.jsonl.gz in {options.folder}", file=sys.stderr)
        return 2
    redactor = Redactor(load_ruleset(), KeyRing("k1", {"k1": bytes(32)}))
    scores = [score(redactor, f.name.removesuffix(".jsonl.gz"), read_rows(f)) for f in files]
    (_print_json if options.json else _print_table)(scores)
    return 0


def _print_json(scores: Iterable[Score]) -> None:
    shown = [
        {
            "source": each.source,
            "rows": each.rows,
            "found_in_text": each.found_in_text,
            "found_in_json": each.found_in_json,
            "negatives": each.negatives,
            "touched_negatives": each.touched_negatives,
            "missed": [
                {"kind": kind, "rows": count, "reason": reason_for(kind)}
                for kind, count in each.missed.most_common()
            ],
        }
        for each in scores
    ]
    print(json.dumps(shown, indent=2))


def _print_table(scores: Iterable[Score]) -> None:
    for each in scores:
        print(
            f"{each.source:16} {each.rows:6} rows  text {_percent(each.found_in_text, each.rows)}"
            f"  JSON {_percent(each.found_in_json, each.rows)}"
            f"  negatives touched {each.touched_negatives} of {each.negatives}"
        )
        for kind, count in each.missed.most_common():
            print(f"    missed {count:3}  {kind:44} {reason_for(kind)}")


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:6.2f} %" if whole else "     - "


if __name__ == "__main__":
    sys.exit(main())
