"""The runs of a lake, newest first, by filters."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.lake.live import Lake
from pipeline.lake.query import query


@dataclass(frozen=True, slots=True)
class Filters:
    """What to list: an end, incomplete runs only, runs that lack or touch something; all at once.

    `missing` is a row or field of the record, `rule` the id of a rule that masked something.
    """

    status: str | None = None
    incomplete: bool = False
    missing: str | None = None
    rule: str | None = None
    limit: int = 20
    offset: int = 0


def list_runs(lake: Lake, filters: Filters) -> Iterator[dict[str, Any]]:
    """The latest record of each attempt, in short."""
    conditions = ["true"]
    if filters.status:
        conditions.append(f"status = {_quoted(filters.status)}")
    if filters.incomplete:
        conditions.append("NOT complete")
    if filters.missing:
        name = _quoted(filters.missing)
        conditions.append(
            f"len(list_filter(missing, lambda m: m.field = {name} "
            f"OR starts_with(m.field, {name} || '.'))) > 0"
        )
    if filters.rule:
        rule = _quoted(filters.rule)
        conditions.append(f"len(list_filter(redactions, lambda r: r.rule = {rule})) > 0")
    result = query(
        lake,
        "SELECT run_id, attempt, status, complete, identity.started_at AS started_at, "
        "date_diff('millisecond', identity.started_at, identity.ended_at) AS took_ms, events, "
        "holes, effects.unknown AS unknown_effects, len(missing) AS missing, "
        "coalesce(list_sum(list_transform(redactions, lambda r: r.count)), 0)::BIGINT AS masks "
        f"FROM runs WHERE {' AND '.join(conditions)} "
        "ORDER BY identity.started_at DESC, run_id, attempt "
        f"LIMIT {filters.limit} OFFSET {filters.offset}",
    )
    return (dict(zip(result.columns, row, strict=True)) for row in result.rows)


def children_of(lake: Lake, run_id: str) -> list[str]:
    """The ids of the runs that name a run as their parent."""
    result = query(
        lake,
        "SELECT DISTINCT run_id FROM stored_events "
        f"WHERE parent_run_id = {_quoted(run_id)} ORDER BY run_id",
    )
    return [row[0] for row in result.rows]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
