"""One partition on one disk: segments, indexes, producer state, transactions, recovery, retention.

The file formats are those of Kafka 4. This package knows nothing of other brokers, groups or sockets.

`directory` holds the logs of a data directory, `log` is one of them, and `recovery` opens it. A log has `content`:
`segments` of batches (`segment`, `indexes`, `scan`), `producers` with their `transactions`, `leader_epochs` and
`durability`. Its parts work on it: `appending`, `rolling`, `syncing`, `compacting`, `retention`, `truncation`.
`safeguards` lists the rules that protect data.
"""
