"""Whether this machine's clock goes with those of others: deadlines are counted by it."""

from typing import Final

from pipeline.doctor.findings import Finding, Level

NOTICED_S: Final = 5.0
"""A store tells its time in whole seconds, and an answer takes a moment."""

WRONG_S: Final = 300.0
"""By so much other systems (object stores, Kerberos) refuse a clock, too."""

_ADVICE: Final = "let NTP set the clocks: rows are kept by them"


def compare(whose: str, theirs_s: float, now_s: float) -> Finding:
    """A clock read at the same moment as ours (both epoch seconds)."""
    skew_s = theirs_s - now_s
    if abs(skew_s) <= NOTICED_S:
        return Finding("ok", "clock", f"{whose} and ours are at most {NOTICED_S:g} s apart")
    level: Level = "warn" if abs(skew_s) <= WRONG_S else "fail"
    side = "ahead of" if skew_s > 0 else "behind"
    return Finding(level, "clock", f"{whose} is {abs(skew_s):.0f} s {side} ours", _ADVICE)


def newest_record(newest_s: float, now_s: float) -> Finding:
    """The newest time stamp in a topic: one from the future is some clock's fault, or ours."""
    ahead_s = newest_s - now_s
    if ahead_s <= NOTICED_S:
        return Finding("ok", "clock", "no record of the topic is from the future")
    seen = f"a record of the topic is {ahead_s:.0f} s from the future"
    return Finding("warn", "clock", seen, _ADVICE)
