"""The views of a query session besides the tables: SQL over `stored_events` and `run_versions`.

An event that its producer sent twice is stored twice, at two offsets: `stored_events` has both
rows, `events` and every view made from it shows the first.
"""

from typing import Final, NamedTuple


class View(NamedTuple):
    """A view by name, with what its rows are."""

    name: str
    description: str
    sql: str


_CALL: Final = """
SELECT run_id, attempt, coalesce(call_id, event_id) AS call_id, any_value(name) AS {name},
  min(sequence) AS sequence,
  min(occurred_at) FILTER (kind = '{kind}.requested') AS requested_at,
  min(occurred_at) FILTER (kind = '{kind}.responded') AS responded_at,
  date_diff('millisecond', requested_at, responded_at) AS duration_ms,
  {more}
FROM events WHERE kind IN ('{kind}.requested', '{kind}.responded')
GROUP BY run_id, attempt, coalesce(call_id, event_id)
"""


def _said(kind: str, path: str, type_name: str = "VARCHAR") -> str:
    """A field of the body of the event of one kind; NULL where it is none of that type."""
    return f"any_value(try_cast(body ->> '{path}' AS {type_name})) FILTER (kind = '{kind}')"


EVENTS_ONCE: Final = View(
    "events",
    "Each event, once however often its producer sent it.",
    """
SELECT stored.* FROM stored_events AS stored ANTI JOIN (
  SELECT again.kafka_topic, again.kafka_partition, again.kafka_offset,
    coalesce(again.record_index, 0) AS index
  FROM stored_events AS again
  JOIN doubled ON again.kafka_topic = doubled.topic AND again.kafka_partition = doubled.partition
    AND again.kafka_offset >= doubled.start AND again.kafka_offset < doubled.end
  JOIN stored_events AS earlier ON again.run_id = earlier.run_id
    AND again.attempt = earlier.attempt AND again.sequence = earlier.sequence
    AND again.event_id = earlier.event_id AND (again.kafka_offset > earlier.kafka_offset
      OR again.kafka_offset = earlier.kafka_offset AND again.record_index > earlier.record_index)
) AS repeat ON stored.kafka_topic = repeat.kafka_topic
  AND stored.kafka_partition = repeat.kafka_partition
  AND stored.kafka_offset = repeat.kafka_offset
  AND coalesce(stored.record_index, 0) = repeat.index
""",
)
"""In a lake where nothing was sent twice `events` is `stored_events`, at no cost."""

VIEWS: Final = (
    View(
        "runs",
        "The latest record of each attempt.",
        """
FROM run_versions QUALIFY row_number() OVER (
  PARTITION BY run_id, attempt ORDER BY version DESC, events DESC, last_offset DESC
) = 1
""",
    ),
    View(
        "model_calls",
        "One row for each call of a model: request and answer together.",
        _CALL.format(
            kind="model",
            name="model",
            more=", ".join(
                [
                    f"{_said('model.responded', '$.provider')} AS provider",
                    f"{_said('model.responded', '$.returned_model')} AS returned_model",
                    f"{_said('model.responded', '$.request_id')} AS request_id",
                    f"{_said('model.responded', '$.usage.input_tokens', 'BIGINT')} AS input_tokens",
                    f"{_said('model.responded', '$.usage.output_tokens', 'BIGINT')} "
                    "AS output_tokens",
                ]
            ),
        ),
    ),
    View(
        "tool_calls",
        "One row for each call of a tool: request and result together.",
        _CALL.format(
            kind="tool", name="tool", more=f"{_said('tool.responded', '$.status')} AS status"
        ),
    ),
    View(
        "effects",
        "One row for each effect: intended, and completed or unknown.",
        f"""
SELECT run_id, attempt, coalesce(body ->> '$.effect_id', call_id, event_id) AS effect_id,
  any_value(name) AS effect, min(sequence) AS sequence,
  any_value(idempotency_key) AS idempotency_key,
  {_said("effect.intended", "$.actor")} AS actor,
  {_said("effect.intended", "$.approval")} AS approval,
  {_said("effect.intended", "$.capability")} AS capability,
  min(occurred_at) FILTER (kind = 'effect.intended') AS intended_at,
  min(occurred_at) FILTER (kind = 'effect.completed') AS completed_at,
  {_said("effect.completed", "$.status")} AS status,
  CASE WHEN count(*) FILTER (kind = 'effect.completed') > 0 THEN 'completed' ELSE 'unknown' END
    AS state
FROM events WHERE kind IN ('effect.intended', 'effect.completed')
GROUP BY run_id, attempt, coalesce(body ->> '$.effect_id', call_id, event_id)
""",
    ),
    View(
        "messages",
        "One row for each message, in the words that were stored.",
        """
SELECT run_id, attempt, sequence, occurred_at, event_id, body ->> '$.role' AS role,
  body -> '$.content' AS content
FROM events WHERE kind = 'message'
""",
    ),
    View(
        "redactions",
        "One row for each change that was made to an event.",
        """
SELECT run_id, attempt, sequence, event_id, kind, occurred_at, unnest(redactions, recursive := true)
FROM events WHERE len(redactions) > 0
""",
    ),
    View(
        "missing_inputs",
        "One row for each thing that a run's record lacks, with what that costs.",
        """
SELECT run_id, attempt, status, unnest(missing, recursive := true) FROM runs
""",
    ),
)
"""In the order in which they build on each other."""
