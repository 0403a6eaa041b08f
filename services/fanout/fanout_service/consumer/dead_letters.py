"""Where records go that cannot be handled, so that the rest goes on."""

import logging

from feedkit import kafka
from feedkit.kafka import Producer, RecordRefused

from fanout_service.consumer.records import Record

logger = logging.getLogger(__name__)

MOST_BYTES = 500_000
"""How much of a record's value is kept: less than every broker takes."""
MOST_CHARACTERS = 1000
"""How much of a reason is told; it may quote the record."""


class DeadLetters:
    """The dead-letter topic."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def bury(self, record: Record, reason: str) -> None:
        """Set a record aside with the reason. Raises Unavailable where the broker has not acknowledged that."""
        told = reason[:MOST_CHARACTERS]
        headers = {
            **{name: value for name, value in record.headers.items() if len(value) <= MOST_CHARACTERS},
            "reason": told,
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
        }
        if len(record.value) > MOST_BYTES:
            headers["value-bytes"] = str(len(record.value))
        place = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
        logger.error("a record is set aside: %s", told, extra=place)
        try:
            await self._producer.send_record(kafka.DEAD_LETTERS, record.key, record.value[:MOST_BYTES], headers)
        except RecordRefused:
            # Nor may this hold up the rest.
            logger.exception("the broker does not take it; it is dropped", extra=place)
