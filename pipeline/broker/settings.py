"""What the local broker is told: server settings and JVM flags, as plain values."""

from collections.abc import Mapping

MAX_MESSAGE_BYTES = 16 << 20
"""Above Kafka's 1 MB, so that oversized events reach the ingest and are accounted for there."""

JVM_FLAGS = (
    "-Xms64m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
)


def server_settings(port: int, controller_port: int) -> dict[str, str]:
    """Settings of a one-node KRaft cluster on the loopback interface.

    Paths are relative to the broker's working directory.  The log keeps everything: sample runs
    are older than any retention, and whoever deletes topics does so on purpose.
    """
    one_node = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        # After a crash the new process has to wait until the old one's session is over.
        "broker.session.timeout.ms": 4000,
        "broker.heartbeat.interval.ms": 1000,
    }
    loopback = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    topics = {
        "log.dirs": "data",
        "auto.create.topics.enable": "false",
        "message.max.bytes": MAX_MESSAGE_BYTES,
        "replica.fetch.max.bytes": MAX_MESSAGE_BYTES,
        "log.retention.ms": -1,
        "log.retention.bytes": -1,
    }
    small = {
        "num.network.threads": 2,
        "num.io.threads": 2,
        "log.cleaner.dedupe.buffer.size": 4 << 20,
    }
    return {name: str(value) for name, value in (one_node | loopback | topics | small).items()}


def to_properties(settings: Mapping[str, str]) -> str:
    """Java's properties format, one setting a line."""
    return "".join(f"{name}={value}\n" for name, value in settings.items())
