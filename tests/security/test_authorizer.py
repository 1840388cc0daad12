from odradek.security.authorizer import (
    OPERATIONS_OF,
    Operation,
    ResourceType,
    authorized_operations,
)


def test_authorized_operations_has_one_bit_per_allowed_operation():
    allowed = {Operation.READ, Operation.DESCRIBE}
    bits = authorized_operations(lambda operation, _type, _name: operation in allowed, ResourceType.TOPIC, "orders")
    assert bits == (1 << 3) | (1 << 8)


def test_only_operations_of_the_resource_type_are_checked():
    asked = []

    def authorize(operation, resource_type, name):
        asked.append((operation, resource_type, name))
        return True

    bits = authorized_operations(authorize, ResourceType.GROUP, "g")
    assert [operation for operation, _, _ in asked] == list(OPERATIONS_OF[ResourceType.GROUP])
    assert bits == 0b1101_0100_1000
