"""Permissions. Every handler asks the authorizer before it acts; no other code decides about permissions.

Codes are Kafka's `AclOperation` and `ResourceType`, since they go over the wire (authorized operations, ACLs).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Protocol

CLUSTER_NAME = "kafka-cluster"
OPERATIONS_NOT_REQUESTED = -(2**31)


class Operation(IntEnum):
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Authorizer(Protocol):
    def authorize(self, principal: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """`principal` is `User:<name>`; `name` is `CLUSTER_NAME` for the cluster itself."""


class AllowAll:
    """The authoriser of a broker without ACLs."""

    __slots__ = ()

    def authorize(
        self,
        principal: str,  # noqa: ARG002
        operation: Operation,  # noqa: ARG002
        resource_type: ResourceType,  # noqa: ARG002
        name: str,  # noqa: ARG002
    ) -> bool:
        return True


# The operations of each resource type, in the order of the wire codes.
OPERATIONS_OF: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}


def authorized_operations(
    authorize: Callable[[Operation, ResourceType, str], bool], resource_type: ResourceType, name: str
) -> int:
    """The bit field of Metadata, DescribeGroups and DescribeCluster: bit n is set when operation n is allowed."""
    return sum(
        1 << operation for operation in OPERATIONS_OF[resource_type] if authorize(operation, resource_type, name)
    )
