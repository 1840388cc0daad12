"""The fleet: which task runs when. No Spark, no time: events in, effects out."""

from __future__ import annotations

import pytest

from odradek.connect.service.fleet import PROVEN_S, Effect, Fleet, Halt, Launch, ListTasks, Phase, RestartPolicy, Tell
from odradek.connect.storage.configs import Target
from odradek.connect.storage.statuses import State
from odradek.connect.tasks.spec import Ending, Outcome

IDLE, STOPPED = Outcome(ending=Ending.IDLE), Outcome(ending=Ending.STOPPED)
FAILED = Outcome(ending=Ending.FAILED, trace="Traceback: no such table")
POLICY = RestartPolicy(attempts_max=2, backoff_s=1.0, backoff_max_s=10.0)


def fleet_with(tasks: int, slots: int = 4, name: str = "orders") -> Fleet:
    fleet = Fleet(slots)
    fleet.configure(name, 1, Target.STARTED, POLICY)
    fleet.tick(0.0)
    fleet.tasks_listed(name, 1, tasks, 0.0)
    fleet.tick(0.0)
    return fleet


def of(kind: type[Effect], effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, kind)]


def test_new_connector_is_listed_then_its_tasks_are_launched() -> None:
    fleet = fleet_with(2)
    effects = fleet.take()
    assert of(ListTasks, effects) == [ListTasks("orders", 1)]
    assert of(Launch, effects) == [Launch("orders", 0, "run-1"), Launch("orders", 1, "run-2")]


def test_idle_task_is_parked_until_there_is_news() -> None:
    fleet = fleet_with(1)
    fleet.run_ended("run-1", IDLE, 5.0)
    fleet.take()
    fleet.tick(100.0)
    assert fleet.take() == []
    fleet.news("orders", 0, 101.0)
    fleet.tick(101.0)
    assert of(Launch, fleet.take()) == [Launch("orders", 0, "run-2")]


def test_failed_task_restarts_with_growing_delays_then_stays_failed_with_its_trace() -> None:
    fleet = fleet_with(1)
    fleet.take()
    fleet.run_ended("run-1", FAILED, 1.0)
    assert fleet.take() == [Tell("orders", 0, State.RESTARTING, FAILED.trace)]
    fleet.tick(1.9)
    assert fleet.take() == []
    fleet.tick(2.0)
    assert of(Launch, fleet.take()) == [Launch("orders", 0, "run-2")]
    fleet.run_ended("run-2", FAILED, 3.0)
    fleet.tick(4.9)
    assert of(Launch, fleet.take()) == []
    fleet.tick(5.0)
    assert of(Launch, fleet.take()) == [Launch("orders", 0, "run-3")]
    fleet.run_ended("run-3", FAILED, 6.0)
    assert fleet.take() == [Tell("orders", 0, State.FAILED, FAILED.trace)]
    fleet.tick(1000.0)
    assert fleet.take() == []


def test_a_long_run_resets_the_number_of_attempts() -> None:
    fleet = fleet_with(1)
    for run, ended in (("run-1", 1.0), ("run-2", 400.0), ("run-3", 402.0)):
        fleet.run_ended(run, FAILED, ended)
        fleet.tick(ended + 10)
    assert fleet.connectors["orders"].tasks[0].phase is Phase.RUNNING


@pytest.mark.parametrize("ends", [True, False])
def test_the_trace_is_no_longer_shown_when_the_task_works_again(ends: bool) -> None:
    fleet = fleet_with(1)
    fleet.run_ended("run-1", FAILED, 1.0)
    fleet.tick(2.0)
    assert fleet.take()[-1] == Tell("orders", 0, State.RUNNING, FAILED.trace)
    fleet.run_connected("run-2", 3.0)
    fleet.tick(3.0 + PROVEN_S - 1)
    assert fleet.take() == []
    if ends:
        fleet.run_ended("run-2", Outcome(ending=Ending.IDLE), 60.0)
    else:
        fleet.tick(3.0 + PROVEN_S)
    assert fleet.take() == [Tell("orders", 0, State.RUNNING)]


def test_restart_of_a_failed_task_by_a_user_begins_again() -> None:
    fleet = fleet_with(1)
    for run, now in (("run-1", 1.0), ("run-2", 20.0), ("run-3", 40.0)):
        fleet.run_ended(run, FAILED, now)
        fleet.tick(now + 10)
    assert fleet.connectors["orders"].tasks[0].phase is Phase.FAILED
    fleet.restart_task("orders", 0, 60.0)
    fleet.take()
    fleet.tick(60.0)
    assert of(Launch, fleet.take()) == [Launch("orders", 0, "run-4")]


def test_new_config_waits_for_the_old_runs_before_tasks_are_listed_again() -> None:
    fleet = fleet_with(2)
    fleet.take()
    fleet.configure("orders", 2, Target.STARTED, POLICY)
    assert of(Halt, fleet.take()) == [Halt("run-1", "the config changed"), Halt("run-2", "the config changed")]
    fleet.tick(1.0)
    fleet.run_ended("run-1", STOPPED, 1.0)
    fleet.tick(1.0)
    assert of(ListTasks, fleet.take()) == []
    fleet.run_ended("run-2", STOPPED, 1.0)
    fleet.tick(1.0)
    assert of(ListTasks, fleet.take()) == [ListTasks("orders", 2)]


def test_a_listing_of_an_old_config_is_ignored() -> None:
    fleet = Fleet(4)
    fleet.configure("orders", 1, Target.STARTED, POLICY)
    fleet.tick(0.0)
    fleet.configure("orders", 2, Target.STARTED, POLICY)
    fleet.tasks_listed("orders", 1, 5, 0.0)
    assert fleet.connectors["orders"].tasks == []


def test_paused_tasks_stop_and_continue_on_resume() -> None:
    fleet = fleet_with(1)
    fleet.take()
    fleet.configure("orders", 1, Target.PAUSED, POLICY)
    assert Halt("run-1", "paused") in fleet.take()
    fleet.run_ended("run-1", STOPPED, 1.0)
    fleet.tick(2.0)
    assert of(Launch, fleet.take()) == []
    fleet.configure("orders", 1, Target.STARTED, POLICY)
    fleet.tick(3.0)
    assert of(Launch, fleet.take()) == [Launch("orders", 0, "run-2")]


@pytest.mark.parametrize("is_listed", [False, True])
def test_run_of_a_deleted_connector_ends_after_another_was_created_with_its_name(is_listed: bool) -> None:
    fleet = fleet_with(1)
    fleet.run_connected("run-1", 0.0)
    fleet.remove("orders")
    fleet.configure("orders", 2, Target.STARTED, POLICY)
    fleet.tick(1.0)
    if is_listed:
        fleet.tasks_listed("orders", 2, 1, 1.0)
        fleet.tick(1.0)
    fleet.take()
    assert not fleet.is_connected("run-1")
    fleet.run_ended("run-1", STOPPED, 2.0)
    assert [task.run for task in fleet.connectors["orders"].tasks] == (["run-2"] if is_listed else [])


def test_stopped_connector_has_no_tasks() -> None:
    fleet = fleet_with(2)
    fleet.configure("orders", 1, Target.STOPPED, POLICY)
    assert fleet.connectors["orders"].tasks == []
    assert Tell("orders", 1, None) in fleet.take()


def test_without_free_slots_the_longest_run_makes_room() -> None:
    fleet = fleet_with(2, slots=1)
    assert of(Launch, fleet.take()) == [Launch("orders", 0, "run-1")]
    fleet.tick(60.0)
    assert fleet.take() == []  # Spark has not started it yet
    fleet.run_connected("run-1", 60.0)
    fleet.tick(64.0)
    assert fleet.take() == []
    fleet.tick(66.0)
    assert fleet.take() == [Halt("run-1", "another task needs the slot")]
    fleet.run_ended("run-1", STOPPED, 66.1)
    fleet.tick(66.1)
    assert of(Launch, fleet.take()) == [Launch("orders", 1, "run-2")]


def test_an_idle_run_that_makes_room_is_parked() -> None:
    fleet = fleet_with(2, slots=1)
    fleet.run_connected("run-1", 0.0)
    fleet.tick(6.0)
    fleet.run_ended("run-1", IDLE, 6.1)
    assert fleet.connectors["orders"].tasks[0].phase is Phase.PARKED


def test_a_lost_lease_is_not_a_failure_of_the_task() -> None:
    fleet = fleet_with(1)
    for attempt in range(1, 6):
        fleet.run_ended(f"run-{attempt}", STOPPED, attempt * 10.0)
        fleet.tick(attempt * 10.0)
        assert fleet.connectors["orders"].tasks[0].phase is Phase.WAITING
        fleet.tick(attempt * 10.0 + 1.0)
    assert fleet.connectors["orders"].tasks[0].phase is Phase.RUNNING


def test_a_connector_that_cannot_list_its_tasks_is_retried_then_fails() -> None:
    fleet = Fleet(4)
    fleet.configure("orders", 1, Target.STARTED, POLICY)
    for now in (0.0, 10.0, 20.0):
        fleet.tick(now)
        fleet.listing_failed("orders", 1, "no route to host", now)
    fleet.take()
    fleet.tick(1000.0)
    assert of(ListTasks, fleet.take()) == []
    assert fleet.connectors["orders"].state is State.FAILED


def test_a_deleted_connector_is_forgotten_and_its_runs_are_halted() -> None:
    fleet = fleet_with(1)
    fleet.take()
    fleet.remove("orders")
    assert fleet.take() == [
        Halt("run-1", "the connector was deleted"),
        Tell("orders", 0, None),
        Tell("orders", None, None),
    ]
    fleet.run_ended("run-1", STOPPED, 1.0)
    assert fleet.runs == {}
