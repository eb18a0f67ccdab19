"""The topic to emit to is made where it is missing."""

from pathlib import Path

from pipeline.errors import BrokerError
from pipeline.kafka import describe_topic, ensure_topic


def prepare_topic(bootstrap: str, topic: str, config_file: Path | None, partitions: int) -> bool:
    """Make the topic with so many partitions unless it is there; whether it was made.

    Asks first: who may write to a topic often may not make one.  Raises BrokerError.
    """
    try:
        describe_topic(bootstrap, topic, config_file)
    except BrokerError as error:
        if error.code != "topic-missing":
            raise
        return ensure_topic(bootstrap, topic, config_file, partitions=partitions)
    return False
