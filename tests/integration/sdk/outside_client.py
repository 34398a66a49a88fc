"""A client from outside does what clients do, and says whom it had connections to.

`outside_client.py HOST:PORT TOPIC` prints a JSON object: how many records it read in a group, the addresses
that it was told of, and the hosts that it was connected to, looked at after each step.
"""

import json
import sys

import psutil
from hightide import Admin, Consumer, Producer

RECORDS = 60


class Witness:
    """Remembers every host to which this process was ever seen to be connected."""

    def __init__(self) -> None:
        self.hosts: set[str] = set()

    def look(self) -> None:
        for connection in psutil.Process().net_connections("tcp"):
            if connection.raddr:
                self.hosts.add(connection.raddr.ip.removeprefix("::ffff:"))


def main() -> None:
    """Create, produce, read in a group, describe."""
    bootstrap, topic = sys.argv[1:]
    witness = Witness()
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=6, replication_factor=2)
        witness.look()
        with Producer(bootstrap) as producer:
            for number in range(RECORDS):
                producer.send(topic, str(number).encode())
            producer.flush()
            witness.look()
        read = 0
        with Consumer(bootstrap, topics=[topic], group=topic, offset_reset="earliest") as consumer:
            while read < RECORDS:
                read += len(consumer.poll(timeout_s=5))
                witness.look()
        cluster = admin.describe_cluster()
        group = admin.describe_group(topic)
        witness.look()
    told = {str(each.address) for each in cluster.brokers} | {group.coordinator_address}
    print(json.dumps({"read": read, "told": sorted(told), "hosts": sorted(witness.hosts)}))


if __name__ == "__main__":
    main()
