"""Two servers, four partitions, two groups: each group receives every record once, for any number of members.

python examples/two_groups.py
"""

from __future__ import annotations

from collections import Counter

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing import Embedded

PARTITIONS, RECORDS = 4, 1000
MEMBERS = {"A": 2, "B": 4}


def main() -> None:
    with Embedded(brokers=2) as cluster:
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        admin = AdminClient(servers)
        admin.create_topics([NewTopic("orders", PARTITIONS)])["orders"].result()
        for index, partition in admin.list_topics("orders").topics["orders"].partitions.items():
            print(f"P{index} is led by server {partition.leader}")

        groups = {name: [joined(servers, name) for _ in range(size)] for name, size in MEMBERS.items()}
        for members in groups.values():
            share_the_partitions(members)
        producer = Producer(servers)
        for number in range(RECORDS):
            producer.produce("orders", str(number))
        producer.flush()
        for name, members in groups.items():
            read_everything(name, members)


def joined(servers: dict[str, object], group: str) -> Consumer:
    member = Consumer({**servers, "group.id": group, "auto.offset.reset": "earliest"})
    member.subscribe(["orders"])
    return member


def share_the_partitions(members: list[Consumer]) -> None:
    """Polls until the partitions are shared equally: members that join get partitions, other members give them up."""
    while any(len(member.assignment()) != PARTITIONS // len(members) for member in members):
        for member in members:
            member.poll(0.05)


def read_everything(group: str, members: list[Consumer]) -> None:
    handed_out = Counter[bytes]()
    while handed_out.total() < RECORDS:
        for member in members:
            handed_out.update(message.value() for message in member.consume(RECORDS, 0.05))
    for number, member in enumerate(members, start=1):
        owned = " and ".join(f"P{partition.partition}" for partition in member.assignment())
        print(f"group {group}, member {number} of {len(members)}: {owned}")
        member.close()
    print(f"group {group}: {len(handed_out)} records, each {max(handed_out.values())} time")


if __name__ == "__main__":
    main()
