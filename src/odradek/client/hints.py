"""What to try for an error, by Kafka's and librdkafka's error names."""

from __future__ import annotations

_NOBODY_THERE = "is a broker running there, and the address right? `odradek up` starts one on 127.0.0.1:9092"
_NO_RIGHT = "ask the cluster's operator for the permission, or name another user in the client's config"
_TOO_FEW = "restart the brokers that are down (see `odradek cluster health`), or lower the topic's min.insync.replicas"
_TOO_LARGE = (
    "raise message_max_bytes of the producer (default 1000000) and max.message.bytes of the topic (default 1048588): "
    "`odradek config set topic TOPIC max.message.bytes=BYTES`"
)
_STALE_MEMBER = "another member has its partitions now and reads the uncommitted records: continue to poll"

HINTS: dict[str, str] = {
    # No answer
    "_TRANSPORT": _NOBODY_THERE,
    "_ALL_BROKERS_DOWN": _NOBODY_THERE,
    "_RESOLVE": "the host name cannot be resolved: check its spelling, or use the IP address",
    "_TIMED_OUT": _NOBODY_THERE,
    "_TIMED_OUT_QUEUE": _NOBODY_THERE,
    "_MSG_TIMED_OUT": f"{_NOBODY_THERE}; message_timeout_ms limits how long a record is retried",
    "_AUTHENTICATION": "check the user and the password, or the certificate, in the client's config",
    "_SSL": "does the broker speak TLS on that port, and is its certificate trusted here?",
    "REQUEST_TIMED_OUT": "the brokers did not finish in time: see `odradek cluster health`",
    "_PURGE_QUEUE": "it was never sent: send it again",
    "_PURGE_INFLIGHT": "it may be stored: check before you send it again",
    # Topics
    "TOPIC_ALREADY_EXISTS": "use another name, or if_missing=True to use the existing topic",
    "UNKNOWN_TOPIC_OR_PART": "`odradek topic ls` shows the existing topics; create one with Admin.create_topic",
    "_UNKNOWN_TOPIC": "`odradek topic ls` shows the existing topics; create one with Admin.create_topic",
    "_UNKNOWN_PARTITION": "Admin.partitions lists the partitions; add more with Admin.add_partitions",
    "TOPIC_EXCEPTION": "a topic's name is 1 to 249 letters of a-z, A-Z, 0-9, '.', '_', '-'",
    "INVALID_PARTITIONS": "a topic has at least one partition, and their number can only grow",
    "INVALID_REPLICATION_FACTOR": "there are fewer brokers than replicas: start more brokers, or use fewer replicas",
    "INVALID_CONFIG": "Admin.topic_config and `odradek config get` show the names and values",
    "POLICY_VIOLATION": "a policy of the cluster forbids it: ask the cluster's operator",
    # Records
    "NOT_ENOUGH_REPLICAS": _TOO_FEW,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": _TOO_FEW,
    "MSG_SIZE_TOO_LARGE": _TOO_LARGE,
    "RECORD_LIST_TOO_LARGE": _TOO_LARGE,
    "OFFSET_OUT_OF_RANGE": "Admin.start_offsets and Admin.end_offsets return the valid range",
    "KAFKA_STORAGE_ERROR": "a broker's disk is full or broken: free space, and the broker recovers by itself",
    "_BAD_MSG": "damaged on the broker's disk or in transit: check the disk with `odradek log verify`",
    # Groups
    "NON_EMPTY_GROUP": "stop the group's members first: `odradek group members` lists them",
    "GROUP_ID_NOT_FOUND": "`odradek group ls` shows the existing groups",
    "UNKNOWN_MEMBER_ID": _STALE_MEMBER,
    "ILLEGAL_GENERATION": _STALE_MEMBER,
    "_MAX_POLL_EXCEEDED": "processing a record takes longer than max_poll_interval_ms: raise it",
    # Permissions
    "TOPIC_AUTHORIZATION_FAILED": _NO_RIGHT,
    "GROUP_AUTHORIZATION_FAILED": _NO_RIGHT,
    "CLUSTER_AUTHORIZATION_FAILED": _NO_RIGHT,
}
