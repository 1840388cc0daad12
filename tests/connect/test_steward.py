"""What a service stores: nothing without its lease, and nothing is lost when the topic refuses a record."""

from __future__ import annotations

import pytest

from odradek.client import Admin
from odradek.connect.interface import WHOLE
from odradek.connect.service.watching import Listed
from odradek.connect.storage.configs import connector_entry
from odradek.connect.storage.topic_log import StorageFailed, TopicLog
from odradek.testing import Embedded
from support.connect_service import Service, connect_service, eventually


def paused(service: Service, name: str, *, tasks: int) -> None:
    """A connector that is paused with this many tasks: nothing is written while it rests."""
    config = {"connector.class": "datagen", "topic": name, "rate": "50", "count": "5"}
    state = "RUNNING" if tasks else "PAUSED"
    body = {"name": name, "config": config, "initial_state": state}
    service.http.post("/connectors", json=body).raise_for_status()
    if tasks:
        eventually(lambda: service.states(name) == ["RUNNING"] * tasks)
        service.http.put(f"/connectors/{name}/pause").raise_for_status()
    eventually(lambda: service.states(name) == ["PAUSED"] * tasks)
    eventually(lambda: not service.steward.call(lambda: service.steward.fleet.runs))


def test_a_status_that_could_not_be_stored_is_stored_later() -> None:
    with Embedded() as broker, connect_service(broker.bootstrap_servers, group="untold") as service:
        paused(service, "untold", tasks=1)
        broker.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
        refused = service.http.post("/connectors/untold/restart")
        assert refused.status_code == 500
        assert 'writing to topic "connect-status"' in refused.json()["message"]
        # The restart forgot the tasks of the paused connector.
        eventually(lambda: service.states("untold") == [])


def test_a_listing_that_arrives_without_the_lease_is_stored_when_the_lease_is_back() -> None:
    with Embedded() as broker, connect_service(broker.bootstrap_servers, group="leaseless") as service:
        steward, admin = service.steward, Admin(broker.bootstrap_servers)
        paused(service, "leaseless", tasks=0)
        broker.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", times=None)
        eventually(lambda: not steward.may_write)
        before = admin.end_offsets("connect-configs")
        listed = Listed("leaseless", steward.configs.versions["leaseless"], ((WHOLE,),))
        steward.call(lambda: steward._saw(listed))
        steward.call(lambda: None)
        assert admin.end_offsets("connect-configs") == before
        broker.calm()
        eventually(lambda: len(steward.configs.tasks.get("leaseless", ())) == 1)


def test_a_service_without_the_lease_writes_to_none_of_its_topics(broker: Embedded) -> None:
    log = TopicLog(
        Admin(broker.bootstrap_servers), "not-leased", 1, {}, lambda _: pytest.fail("stored"), may_append=lambda: False
    )
    with pytest.raises(StorageFailed, match='"not-leased" was not written: another service of the group may be active'):
        log.append([(b"key", b"value")])
    log.catch_up()
    log.close()


def test_a_deleted_connector_leaves_no_topic_that_was_reported_before_or_after() -> None:
    with Embedded() as broker, connect_service(broker.bootstrap_servers, group="deleted") as service:
        steward = service.steward
        service.create("deleted", connector_class="datagen", topic="deleted", rate="50")
        eventually(lambda: service.states("deleted") == ["RUNNING"])

        def delete_between_two_reports() -> None:
            (run,) = steward.fleet.runs
            steward._take_report(run, {"topics": ["before"]})
            steward.config_log.append(connector_entry("deleted", None))
            steward.reconcile()
            steward._take_report(run, {"topics": ["after"]})

        steward.call(delete_between_two_reports)
        eventually(lambda: not steward.call(lambda: steward.fleet.runs or steward._untold))
        assert not steward.statuses.topics.get("deleted")
        assert "deleted" not in steward.figures
