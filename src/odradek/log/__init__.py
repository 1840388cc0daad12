"""One partition on one disk: segments, indexes, producer state, recovery, retention.

In Kafka 4's own file formats. Knows nothing of other brokers, groups or sockets.

`directory` holds the logs of a data directory, `log` one of them; `recovery` opens it. A log is `segments` of batches
(`segment`, `indexes`, `scan`), with `producers`, `leader_epochs`, and a `durability` of its own. `safeguards` lists the
rules that protect data.
"""
