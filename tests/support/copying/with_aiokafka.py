"""Copies `in` to `out` with aiokafka: `python with_aiokafka.py BOOTSTRAP TRANSACTIONAL_ID PARTITIONS`.

aiokafka does not send its generation with the offsets of a transaction, so the coordinator cannot fence a member that
was removed from the group. Each copier has its own partitions instead, and the transactional id fences its predecessor.
Every error ends the program: its supervisor starts it again.
"""

from __future__ import annotations

import asyncio
import sys
import uuid

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

RECORDS_MAX = 100
GROUP = "copiers"


async def main(bootstrap: str, transactional_id: str, own: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=20_000
    )
    # The predecessor's transaction is ended here, before the committed offsets are read.
    await producer.start()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    await consumer.start()
    consumer.assign([TopicPartition("in", int(partition)) for partition in own.split(",")])
    name, number = uuid.uuid4(), 0
    while True:
        batches = await consumer.getmany(timeout_ms=200, max_records=RECORDS_MAX)
        records = [record for batch in batches.values() for record in batch]
        if not records:
            continue
        number += 1
        headers = [("transaction", f"{name}/{number}".encode()), ("size", b"%d" % len(records))]
        async with producer.transaction():
            for record in records:
                await producer.send("out", record.value, record.key, partition=record.partition, headers=headers)
            ends = {partition: batch[-1].offset + 1 for partition, batch in batches.items() if batch}
            await producer.send_offsets_to_transaction(ends, GROUP)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
