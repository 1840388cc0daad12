"""Checks topic names."""

from __future__ import annotations

import re

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.limits import topic_name_chars_max
from odradek.metadata.image import ClusterImage, collision_key

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def what_is_wrong_with(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > topic_name_chars_max:
        return f"the length of '{name}' is longer than the max allowed length {topic_name_chars_max}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_topic_name(name: str) -> None:
    problem = what_is_wrong_with(name)
    if problem:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def check_new_topic_name(image: ClusterImage, name: str) -> None:
    if name == CLUSTER_METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    check_topic_name(name)
    if name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = image.colliding_names.get(collision_key(name))
    if other is not None and ("." in name or "_" in name):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
