"""From a Kafka message to a masked row: decode → redact → place.  Pure: no I/O, no clock; only its
decoder may ask for a schema.

The raw payload enters `Masker.mask` and does not leave it: what comes back is masked, hashed or a
count.  Whatever cannot be examined in full becomes a dead letter without payload.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from pipeline.deadletters import NULL_KEY
from pipeline.declared import carry_declared
from pipeline.deltas import RUN_FINISHED, Deltas, Rewritten, pieces_of
from pipeline.identifiers import Identifiers
from pipeline.retention.policy import Placement, Policy
from pipeline.shadow import Hit, Shadow
from pipeline.slices import Message
from pipeline.state.memories import Memories
from redactors import Redacted, Redaction, Redactor, Unexaminable
from schemas import DecodeError, Decoder, RunEvent
from schemas.parquet import DEAD_LETTERS, EVENTS

MAX_HEADERS = 64
"""Header names that a dead letter keeps."""


class MaskedEvent(NamedTuple):
    """A row of `events`: every column by name; and what rules in shadow would mask in it."""

    placement: Placement
    row: dict[str, Any]
    redactions: tuple[Redaction, ...]
    shadowed: tuple[Hit, ...] = ()


class DeadLetter(NamedTuple):
    """A row of `dead_letters`: every column by name; no payload, no message text."""

    placement: Placement
    row: dict[str, Any]
    code: str


@dataclass(frozen=True, slots=True)
class Refused:
    """An event that was already past its deadline: counted, stored nowhere."""


Result: TypeAlias = MaskedEvent | DeadLetter | Refused
"""What becomes of a message."""


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where a slice's messages come from."""

    topic: str
    partition: int


class Decoded(NamedTuple):
    """A message and its event, or the code for which it has none."""

    message: Message
    event: RunEvent | str


_NO_EVENT: dict[str, Any] = dict.fromkeys(EVENTS.names)
_NO_DEAD_LETTER: dict[str, Any] = dict.fromkeys(DEAD_LETTERS.names)


class Masker:
    """Masks the messages of one slice after another under one ruleset, key and policy.

    What its decoder's registry raises passes through: of an outage nothing is made.
    """

    def __init__(
        self,
        redactor: Redactor,
        policy: Policy,
        shadow: Shadow | None = None,
        decoder: Decoder | None = None,
    ) -> None:
        self.redactor, self.policy, self._shadow = redactor, policy, shadow
        self._decoder = decoder or Decoder()
        self._identifiers = Identifiers(redactor)

    def mask(
        self, message: Message, at: Coordinates, now_us: int, memories: Memories | None = None
    ) -> Result:
        """Masks one message by itself; raises nothing that depends on the payload.

        `memories` of the partition's runs: what a field shows is masked in the run's later events.
        """
        alone = Deltas(self.redactor.masks)
        (result,) = (
            *self.take([self.decoded(message)], at, now_us, memories, alone),
            *self.rest(at, now_us, memories, alone),
        )
        return result

    def decoded(self, message: Message) -> Decoded:
        """The message with its event; raises what the decoder's registry raises."""
        if message.unfit:
            return Decoded(message, message.unfit)
        try:
            event = self._decoder.decode(message.value, message.schema_header)
        except DecodeError as error:
            return Decoded(message, error.code)
        return Decoded(message, NULL_KEY if message.key is None else event)

    def take(
        self,
        messages: Sequence[Decoded],
        at: Coordinates,
        now_us: int,
        memories: Memories | None,
        deltas: Deltas,
    ) -> list[Result]:
        """Masks the next messages of a slice, in their order: nothing yet for a delta, which waits
        in `deltas` for its message to be over, and comes before what ended it.

        How many are taken at once makes no difference, but to the time it takes.
        """
        ready: list[Rewritten | DeadLetter] = []
        for message, event in messages:
            if isinstance(event, str):
                ready.append(self._dead_letter(message, at, now_us, event, "decode"))
            elif pieces := pieces_of(event):
                deltas.hold(message, event, pieces)
            else:
                ready += (*deltas.over(event), Rewritten(message, event, ()))
        return self._all_masked(ready, at, now_us, memories)

    def rest(
        self, at: Coordinates, now_us: int, memories: Memories | None, deltas: Deltas
    ) -> list[Result]:
        """Masks the deltas that still wait when their slice ends."""
        return self._all_masked(deltas.rest(), at, now_us, memories)

    def _all_masked(
        self,
        ready: Sequence[Rewritten | DeadLetter],
        at: Coordinates,
        now_us: int,
        memories: Memories | None,
    ) -> list[Result]:
        self._identifiers.learn(each.event for each in ready if isinstance(each, Rewritten))
        return [
            each if isinstance(each, DeadLetter) else self._masked(each, at, now_us, memories)
            for each in ready
        ]

    def _masked(
        self, rewritten: Rewritten, at: Coordinates, now_us: int, memories: Memories | None
    ) -> Result:
        message, event, _ = rewritten
        subjects = [self.redactor.pseudonym(subject, "SUBJECT") for subject in event.subjects]
        placement = self.policy.place(
            event.occurred_at,
            event.captured_at,
            event.retention_class,
            now_us,
            kind=event.kind_name or event.kind,
            producer=event.producer.name,
            subjects=subjects,
        )
        if placement.refused:
            return Refused()
        try:
            return self._masked_event(rewritten, subjects, at, now_us, placement, memories)
        except Unexaminable as error:
            return self._dead_letter(message, at, now_us, error.code, "redact")

    def _masked_event(
        self,
        rewritten: Rewritten,
        subjects: list[str],
        at: Coordinates,
        now_us: int,
        placement: Placement,
        memories: Memories | None,
    ) -> MaskedEvent:
        message, event, moved = rewritten
        names, renamed = self._identifiers.of(event)
        run_id = names["run_id"]
        assert run_id is not None
        body = self._masked_body(event, run_id, now_us, memories)
        hidden = [
            Redaction(path="subjects", rule="subject", label="SUBJECT", action="hash")
            for before, after in zip(event.subjects, subjects, strict=True)
            if before != after
        ]
        claimed = carry_declared(
            event.redactions, event.body, body.text, body.redactions, names, self._is_clean
        )
        redactions = (*claimed, *body.redactions, *moved, *renamed, *hidden)
        row = {
            **_NO_EVENT,
            **names,
            "attempt": event.attempt,
            "sequence": event.sequence,
            "occurred_at": event.occurred_at,
            "captured_at": event.captured_at,
            "kind": event.kind,
            "body": body.text,
            "subjects": subjects,
            "producer": {
                "name": names["producer_name"],
                "version": names["producer_version"],
            },
            "redactions": [_as_dict(redaction) for redaction in redactions],
            "ruleset": self.redactor.digest,
            "key_id": self.redactor.key_id,
            "kafka_topic": at.topic,
            "kafka_partition": at.partition,
            "kafka_offset": message.offset,
            "ingested_at": now_us,
            "deadline": placement.deadline_us,
            "retention_from": placement.counted_from,
            **_member(message),
        }
        shadowed = () if self._shadow is None else tuple(self._shadow.look(body.text))
        return MaskedEvent(placement, row, redactions, shadowed)

    def _is_clean(self, text: str) -> bool:
        return not self.redactor.redact_text(text).redactions

    def _masked_body(
        self, event: RunEvent, run_id: str, now_us: int, memories: Memories | None
    ) -> Redacted:
        if memories is None:
            return self.redactor.redact_json(event.body)
        memory = memories.of(run_id)
        try:
            return self.redactor.redact_json(event.body, memory)
        finally:
            # Also what an event showed before it turned out not to be examinable.
            if event.kind == RUN_FINISHED:
                memories.forget(run_id)
            else:
                memories.keep(run_id, memory, now_us)

    def _dead_letter(
        self, message: Message, at: Coordinates, now_us: int, code: str, stage: str
    ) -> DeadLetter:
        # Counted from the ingest: the message's own times cannot be trusted here.
        placement = self.policy.place(now_us, None, None, now_us)
        row = {
            **_NO_DEAD_LETTER,
            "kafka_topic": at.topic,
            "kafka_partition": at.partition,
            "kafka_offset": message.offset,
            "kafka_timestamp": message.timestamp_us,
            "code": code,
            "stage": stage,
            "length_bytes": len(message.record),
            "payload_hmac": self.redactor.keyed_hash(message.record),
            "header_names": self._header_names(message.header_names),
            "ruleset": self.redactor.digest,
            "key_id": self.redactor.key_id,
            "ingested_at": now_us,
            "deadline": placement.deadline_us,
            **_member(message),
        }
        return DeadLetter(placement, row, code)

    def _header_names(self, names: Iterable[str]) -> list[str]:
        kept = {str(index): name for index, name in enumerate(list(names)[:MAX_HEADERS])}
        return list(self.redactor.redact_identifiers(kept)[0].values())


def _member(message: Message) -> dict[str, int | None]:
    """The columns that say which event of a record a row is."""
    member = message.member
    return {} if member is None else {"record_index": member.index, "record_events": member.count}


_REDACTION_FIELDS = tuple(field.name for field in fields(Redaction))
_REDACTION_VALUES = attrgetter(*_REDACTION_FIELDS)


def _as_dict(redaction: Redaction) -> dict[str, Any]:
    return dict(zip(_REDACTION_FIELDS, _REDACTION_VALUES(redaction), strict=True))
