"""What an examination found: one line each, of three levels."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from pipeline.errors import PipelineError
from redactors import RedactorsError

Level = Literal["ok", "warn", "fail"]
"""`warn`: an ingest runs, but somebody should look; `fail`: it does not, or breaks the policy."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`what` was examined, what was `seen`, and what to do about it (`advice`, "": nothing).

    None of them ever holds payload, a key, or a value of a client's settings.
    """

    level: Level
    what: str
    seen: str
    advice: str = ""

    def __str__(self) -> str:
        line = f"{self.level:<4}  {self.what}: {self.seen}"
        return f"{line} — {self.advice}" if self.advice else line


def attempt(what: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """What `check` finds; an error that stops it is a finding, too."""
    try:
        return list(check())
    except PipelineError as error:
        return [Finding("fail", what, str(error), error.hint)]
    except RedactorsError as error:
        return [Finding("fail", what, str(error))]
    except Exception as error:  # its words may quote what nobody should read
        return [Finding("fail", what, f"the examination ended in {type(error).__name__}")]


def has_failed(findings: Iterable[Finding]) -> bool:
    """Whether any of them is a `fail`."""
    return any(each.level == "fail" for each in findings)


def as_json(findings: Sequence[Finding]) -> str:
    """`{"ok": …, "findings": [{"level", "what", "seen", "advice"}, …]}`."""
    found = {"ok": not has_failed(findings), "findings": [asdict(each) for each in findings]}
    return json.dumps(found, ensure_ascii=False)
