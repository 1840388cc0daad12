from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from odradek.server.api.p75_describe_topic_partitions import API
from odradek.server.network.request import BrokerContext
from support.admin_broker import AdminBroker, Denying, OneConnection


def asking(*names, limit=2000, cursor=None):
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
    )


def shape(response):
    return [(topic.name, [p.partition_index for p in topic.partitions]) for topic in response.topics]


def test_topics_come_in_the_order_of_their_names():
    broker = AdminBroker()
    broker.create_topic("b", 2)
    topic = broker.create_topic("a")
    response = broker.ask(75, asking("b", "a"), 0)
    assert shape(response) == [("a", [0]), ("b", [0, 1])]
    assert response.next_cursor is None
    first = response.topics[0]
    assert first.topic_id == topic.topic_id
    assert (first.partitions[0].leader_id, first.partitions[0].eligible_leader_replicas) == (1, [])
    assert first.topic_authorized_operations > 0


def test_pages_lead_to_each_other_and_repeat_nothing():
    broker = AdminBroker()
    for name, partitions in (("a", 3), ("b", 1), ("c", 4)):
        broker.create_topic(name, partitions)
    seen, cursor, pages = [], None, 0
    while True:
        response = broker.ask(75, asking(limit=2, cursor=cursor), 0)
        seen += [(name, index) for name, indexes in shape(response) for index in indexes]
        pages += 1
        if response.next_cursor is None:
            break
        cursor = Cursor(
            topic_name=response.next_cursor.topic_name, partition_index=response.next_cursor.partition_index
        )
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1), ("c", 2), ("c", 3)]
    assert pages == 4


def test_the_broker_limits_a_page_too():
    broker = AdminBroker(settings={"max.request.partition.size.limit": "1"})
    broker.create_topic("a", 3)
    response = broker.ask(75, asking("a"), 0)
    assert shape(response) == [("a", [0])]
    assert (response.next_cursor.topic_name, response.next_cursor.partition_index) == ("a", 1)


def test_unknown_and_invalid_names():
    response = AdminBroker().ask(75, asking("missing", "b ad"), 0)
    assert [(t.name, t.error_code) for t in response.topics] == [
        ("b ad", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_a_cursor_must_point_at_a_topic_that_is_asked_for():
    broker = AdminBroker()
    broker.create_topic("a")
    for cursor in (Cursor(topic_name="b", partition_index=0), Cursor(topic_name="a", partition_index=-1)):
        (topic,) = broker.ask(75, asking("a", cursor=cursor), 0).topics
        assert topic.error_code == ErrorCode.INVALID_REQUEST


def test_a_topic_that_may_not_be_described_is_named_only_if_asked_for():
    broker = AdminBroker(authorizer=Denying(lambda _operation, _type, name: name == "secret"))
    broker.create_topic("secret")
    broker.create_topic("open")
    assert shape(broker.ask(75, asking(), 0)) == [("open", [0])]
    answers = broker.ask(75, asking("open", "secret"), 0).topics
    assert [(t.name, t.error_code) for t in answers] == [
        ("open", 0),
        ("secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]


class Name(str):
    """Counts how often names are compared."""

    compared = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)


def test_many_names_are_not_compared_each_with_each():
    request = asking(*(Name(number) for number in range(1000)))
    ctx = BrokerContext(AdminBroker().broker, OneConnection(), 0, 7, "test")
    assert len(API.handle(ctx, request).topics) == 1000
    assert Name.compared < 20_000
