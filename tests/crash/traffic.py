"""A stream of messages into a topic, and the memory of what was sent where."""

import hashlib
import json
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from crash.canaries import Canary

from schemas import RunEvent, encode, encode_json

Kind = Literal["clean", "canary", "bad", "aborted"]

WORDS = ["agent", "build", "cache", "check", "deploy", "index", "merge", "order", "plan", "queue"]
RUNS = 40
TRANSACTION = 5
"""Messages in a transaction."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What stands at one offset: `body_sha256` of the body as it was sent."""

    kind: Kind
    event_id: str
    body_sha256: str


class Traffic:
    """Sends about `rate` messages a second, as many as it may, in a thread; a context manager.

    `allow` raises how many it may send: a slow machine does not get more to do than a fast one.
    `sent` has (partition, offset) of everything that the broker took, complete after the end.
    """

    def __init__(
        self, bootstrap: str, topic: str, canaries: Sequence[Canary], seed: int, rate: int = 200
    ) -> None:
        self._topic, self._canaries, self._rate = topic, canaries, rate
        self._rng = random.Random(seed)
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0}
        self._plain = Producer({**settings, "enable.idempotence": True})
        self._transactional = Producer({**settings, "transactional.id": f"{topic}-{seed}"})
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._together: list[tuple[int, int]] = []  # what the open transaction holds
        self._number = 0
        self._allowed = 0
        self.sent: dict[tuple[int, int], Sent] = {}
        self.canaries_sent = 0
        self.failed = 0

    def __enter__(self) -> "Traffic":
        self._transactional.init_transactions()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def allow(self, count: int) -> None:
        """Lets `count` messages more be sent."""
        self._allowed += count

    def end(self) -> None:
        """Sends nothing more and waits until the broker has everything."""
        self._over.set()
        self._thread.join()
        assert self._plain.flush(60) == 0
        assert self.failed == 0

    def _run(self) -> None:
        while not self._over.is_set():
            batch = min(self._rate // 10, self._allowed)
            for _ in range(batch):
                self._send_one()
            self._allowed -= batch
            self._plain.poll(0)
            self._over.wait(0.1)

    def _send_one(self) -> None:
        lot = self._rng.random()
        if lot < 0.4:
            self._send_event("clean", {"n": self._number, "said": self._text()})
        elif lot < 0.94:
            canary = self._canaries[self.canaries_sent % len(self._canaries)]
            self.canaries_sent += 1
            self._send_event("canary", canary.body)
        elif lot < 0.998:
            self._send_bad()
        else:
            self._send_transaction()

    def _text(self) -> str:
        return " ".join(self._rng.choices(WORDS, k=self._rng.randint(5, 60)))

    def _send_event(self, kind: Kind, body: object, through: Producer | None = None) -> None:
        self._number += 1
        event = RunEvent(
            event_id=f"event-{self._number}",
            run_id=f"run-{self._number % RUNS}",
            sequence=self._number // RUNS,
            occurred_at=time.time_ns() // 1000,
            kind="message",
            body=json.dumps(body),
        )
        digest = hashlib.sha256(event.body.encode()).hexdigest()
        value = encode(event) if self._rng.random() < 0.8 else encode_json(event)
        self._produce(
            value, event.run_id.encode(), Sent(kind, event.event_id, digest), through or self._plain
        )

    def _send_bad(self) -> None:
        """A message that is no event, or one without a key; both hold a canary."""
        canary = self._rng.choice(self._canaries)
        whole = json.dumps(canary.body).encode()
        value = self._rng.choice([whole[:-1], whole, b"\x00\x00\x00\x00\x07" + whole, b""])
        self._produce(value, b"run-bad", Sent("bad", "", ""), self._plain)

    def _send_transaction(self) -> None:
        kind: Kind = self._rng.choice(["clean", "aborted"])
        self._together.clear()
        self._transactional.begin_transaction()
        for _ in range(TRANSACTION):
            self._send_event(kind, {"n": self._number, "said": "together"}, self._transactional)
        self._transactional.flush(30)
        end = (
            self._transactional.abort_transaction
            if kind == "aborted"
            else self._transactional.commit_transaction
        )
        while True:  # the broker may be away meanwhile
            try:
                return end()
            except KafkaException as error:
                cause = error.args[0]
                assert isinstance(cause, KafkaError)
                if cause.txn_requires_abort():  # a message of it ran into its time-out
                    end = self._transactional.abort_transaction
                    for place in self._together:
                        self.sent[place] = replace(self.sent[place], kind="aborted")
                elif not cause.retriable():
                    raise

    def _produce(self, value: bytes, key: bytes, sent: Sent, through: Producer) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            partition, offset = message.partition(), message.offset()
            if error is not None or partition is None or offset is None:
                # One of a transaction makes it end as aborted, or was purged as it was.
                self.failed += through is self._plain
                return
            self.sent[partition, offset] = sent
            if through is self._transactional:
                self._together.append((partition, offset))

        through.produce(self._topic, value=value, key=key, on_delivery=delivered)
