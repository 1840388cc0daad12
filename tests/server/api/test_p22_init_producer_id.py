import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.p22_init_producer_id import InitProducerIdRequest
from support.admin_broker import AdminBroker, Denying


def request(**more):
    return InitProducerIdRequest(**{"transactional_id": None, **more})


@pytest.mark.parametrize("version", range(6))
def test_each_producer_gets_an_id_of_its_own_and_epoch_0(version):
    broker = AdminBroker()
    answers = [broker.ask(22, request(), version) for _ in range(3)]
    assert [(a.error_code, a.producer_epoch) for a in answers] == [(0, 0)] * 3
    assert len({a.producer_id for a in answers}) == 3


def test_ids_come_out_of_blocks_that_the_metadata_log_has_given_away():
    broker = AdminBroker()
    assert broker.ask(22, request(), 4).producer_id < broker.broker.image.next_producer_id


def test_a_producer_that_names_its_id_gets_a_new_one():
    broker = AdminBroker()
    first = broker.ask(22, request(), 4)
    second = broker.ask(22, request(producer_id=first.producer_id, producer_epoch=0), 4)
    assert (second.error_code, second.producer_epoch) == (0, 0)
    assert second.producer_id != first.producer_id


@pytest.mark.parametrize(("producer_id", "producer_epoch"), [(5, -1), (-1, 0)])
def test_a_producer_id_without_an_epoch_is_refused(producer_id, producer_epoch):
    answer = AdminBroker().ask(22, request(producer_id=producer_id, producer_epoch=producer_epoch), 3)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


@pytest.mark.parametrize("version", range(6))
def test_an_empty_transactional_id_is_refused(version):
    assert AdminBroker().ask(22, request(transactional_id=""), version).error_code == ErrorCode.INVALID_REQUEST


def test_idempotent_writing_needs_permission():
    answer = AdminBroker(authorizer=Denying(lambda *_: True)).ask(22, request(), 4)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1)


def test_without_an_active_controller_init_producer_id_returns_a_retriable_error():
    broker = AdminBroker()
    broker.controller.refuses = KafkaError(ErrorCode.NOT_CONTROLLER)
    assert broker.ask(22, request(), 4).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
