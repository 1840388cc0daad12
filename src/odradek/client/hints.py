"""What to try, by Kafka's and librdkafka's names of errors."""

from __future__ import annotations

_NOBODY_THERE = "is a broker running there, and the address right? `odradek up` starts one on 127.0.0.1:9092"
_NO_RIGHT = "whoever runs the cluster grants the right, or name another user in the client's config"
_TOO_FEW = (
    "bring brokers back (`odradek cluster health` tells which are away), or lower the topic's min.insync.replicas"
)
_TOO_LARGE = (
    "raise message_max_bytes of the producer (1000000 unless set) and max.message.bytes of the topic (1048588 unless "
    "set): `odradek config set topic TOPIC max.message.bytes=BYTES`"
)
_STALE_MEMBER = "another member has its partitions now, and reads what was not committed: go on reading"

HINTS: dict[str, str] = {
    # Nobody answers
    "_TRANSPORT": _NOBODY_THERE,
    "_ALL_BROKERS_DOWN": _NOBODY_THERE,
    "_RESOLVE": "nobody knows a host of that name: check its spelling, or write its number",
    "_TIMED_OUT": _NOBODY_THERE,
    "_TIMED_OUT_QUEUE": _NOBODY_THERE,
    "_MSG_TIMED_OUT": f"{_NOBODY_THERE}; message_timeout_ms says how long a record is tried for",
    "_AUTHENTICATION": "check the user and the password, or the certificate, in the client's config",
    "_SSL": "does the broker speak TLS on that port, and is its certificate known here?",
    "REQUEST_TIMED_OUT": "the brokers were not done in time: `odradek cluster health` tells what is wrong",
    "_PURGE_QUEUE": "it was never sent: send it again",
    "_PURGE_INFLIGHT": "it may be stored or not: look before it is sent again",
    # Topics
    "TOPIC_ALREADY_EXISTS": "take another name, or if_missing=True to use the topic that is there",
    "UNKNOWN_TOPIC_OR_PART": "`odradek topic ls` shows the topics that exist, Admin.create_topic makes one",
    "_UNKNOWN_TOPIC": "`odradek topic ls` shows the topics that exist, Admin.create_topic makes one",
    "_UNKNOWN_PARTITION": "Admin.partitions tells which there are, Admin.add_partitions makes more",
    "TOPIC_EXCEPTION": "a topic's name is 1 to 249 letters of a-z, A-Z, 0-9, '.', '_', '-'",
    "INVALID_PARTITIONS": "a topic has at least one partition, and can only grow",
    "INVALID_REPLICATION_FACTOR": "there are fewer brokers than copies wanted: start more, or ask for fewer",
    "INVALID_CONFIG": "Admin.topic_config and `odradek config get` show the names and values there are",
    "POLICY_VIOLATION": "the cluster's rules forbid it: ask whoever runs it",
    # Records
    "NOT_ENOUGH_REPLICAS": _TOO_FEW,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": _TOO_FEW,
    "MSG_SIZE_TOO_LARGE": _TOO_LARGE,
    "RECORD_LIST_TOO_LARGE": _TOO_LARGE,
    "OFFSET_OUT_OF_RANGE": "Admin.start_offsets and Admin.end_offsets tell which offsets there are",
    "KAFKA_STORAGE_ERROR": "a broker's disk is full or broken: free it, and it goes on by itself",
    "_BAD_MSG": "damaged on the broker's disk or on the way: `odradek log verify` on its machine tells which",
    # Groups
    "NON_EMPTY_GROUP": "stop the group's members first: `odradek group members` names them",
    "GROUP_ID_NOT_FOUND": "`odradek group ls` shows the groups that exist",
    "UNKNOWN_MEMBER_ID": _STALE_MEMBER,
    "ILLEGAL_GENERATION": _STALE_MEMBER,
    "_MAX_POLL_EXCEEDED": "what is done between two records takes longer than max_poll_interval_ms: raise it",
    # Rights
    "TOPIC_AUTHORIZATION_FAILED": _NO_RIGHT,
    "GROUP_AUTHORIZATION_FAILED": _NO_RIGHT,
    "CLUSTER_AUTHORIZATION_FAILED": _NO_RIGHT,
}
