"""A checker that never fails proves nothing: each is given a history with a violation."""

import pytest

from odradek.sim import records
from odradek.sim.checkers import RecoveryWatch, check_duplicates, check_jumps, check_retention, check_sightings
from odradek.sim.history import History, Violation
from odradek.sim.knobs import TopicPlan
from odradek.sim.on_disk import stored_logs
from odradek.sim.workloads.group_member import GroupPlan
from odradek.sim.workloads.refusals import AskAgain

PLACE = ("orders", 0)


def never(_directory):
    return False


def _history(*sightings, ends=None):
    history = History()
    for incarnation, offset, value, acked in sightings:
        history.sends(PLACE, [value], once=True)
        if acked:
            history.acknowledged(incarnation, PLACE, offset, [value])
        else:
            history.polled(incarnation, PLACE, [(offset, value)])
    for incarnation, end in (ends or {}).items():
        history.ends_at_start[incarnation] = {PLACE: end}
    return history


def test_a_lost_write():
    history = _history((1, 0, b"a", True), ends={1: 0})
    check_sightings(history, PLACE, {0: b"a"}, safe=False)
    with pytest.raises(Violation, match=r"^J1"):
        check_sightings(history, PLACE, {}, safe=False)


def test_what_a_power_cut_may_take_depends_on_the_topic():
    lost = _history((1, 0, b"a", True), (1, 1, b"b", True), (2, 1, b"c", True), ends={1: 0, 2: 1})
    final = {0: b"a", 1: b"c"}
    check_sightings(lost, PLACE, final, safe=False)
    with pytest.raises(Violation, match=r"^J1"):
        check_sightings(lost, PLACE, final, safe=True)


def test_a_power_cut_may_take_a_log_by_its_name():
    gone = _history((1, 0, b"a", True), ends={1: 0})
    gone.ends_at_start[2] = {}
    check_sightings(gone, PLACE, {}, safe=False)
    check_sightings(gone, PLACE, {0: b"b"}, safe=False)
    with pytest.raises(Violation, match=r"^J1"):
        check_sightings(gone, PLACE, {}, safe=True)


@pytest.mark.parametrize(("synced_to", "power_cut"), [(0, False), (1, True)])
def test_a_log_that_is_gone_after_a_kill_or_a_sync(synced_to, power_cut):
    watch = RecoveryWatch()
    watch.stopping({_log_name(0): ONE}, {"orders-0": synced_to}, power_cut=power_cut)
    with pytest.raises(Violation, match=r"^L2 orders-0 is gone"):
        watch.loaded({}, never)


def test_an_empty_log_that_was_being_restarted_may_be_back_at_its_old_start():
    watch = RecoveryWatch()
    watch.stopping({_log_name(10): b""}, {"orders-0": 10}, power_cut=False)
    watch.loaded({_log_name(0): b""}, never)


def test_a_late_answer_counts_for_the_incarnation_that_sent_it():
    history = _history((2, 1, b"c", True), (1, 1, b"b", True), ends={1: 0, 2: 1})
    check_sightings(history, PLACE, {1: b"c"}, safe=False)


def test_one_offset_with_two_values():
    with pytest.raises(Violation, match=r"^J2"):
        check_sightings(_history((1, 0, b"a", True), (1, 0, b"b", False)), PLACE, {0: b"a"}, safe=True)


def test_what_was_deleted_on_purpose_is_not_missed():
    history = _history((1, 0, b"a", True), ends={1: 0})
    history.deletes_below(PLACE, 1)
    check_sightings(history, PLACE, {}, safe=True)


def test_a_duplicate():
    history = _history((1, 0, b"a", True))
    with pytest.raises(Violation, match=r"^J3"):
        check_duplicates(history, PLACE, {0: b"a", 1: b"a"})


def test_duplicates_below_the_log_start_are_allowed():
    history = _history((1, 0, b"a", True))
    history.deletes_below(PLACE, 1)
    check_duplicates(history, PLACE, {0: b"a", 1: b"a"})
    with pytest.raises(Violation, match=r"^J3"):
        check_duplicates(history, PLACE, {1: b"a", 2: b"a"})


def test_a_value_that_was_never_sent_is_a_violation():
    with pytest.raises(Violation, match=r"^J5"):
        History().polled(1, PLACE, [(0, b"phantom")])


def test_a_producer_id_given_twice():
    history = History()
    history.given_producer_id(7, "a")
    with pytest.raises(Violation, match=r"^P3"):
        history.given_producer_id(7, "b")


def test_a_position_that_vanished():
    history = History()
    history.jumped(PLACE, 9, 0, 5)
    plan = TopicPlan(name="orders", partitions=1, configs={}, safe=False)
    check_jumps(history, {"orders": plan})
    firm = TopicPlan(name="orders", partitions=1, configs={}, safe=True)
    with pytest.raises(Violation, match=r"^J4"):
        check_jumps(history, {"orders": firm})
    history.jumps = [(PLACE, 1, 3, 5)]
    with pytest.raises(Violation, match=r"^J4"):
        check_jumps(history, {"orders": plan})


def _batch(offset, *values):
    encoded = bytearray(records.encode(values, 1000))
    encoded[:8] = offset.to_bytes(8, "big")
    return bytes(encoded)


def _log_name(offset):
    return f"orders-0/{offset:020d}.log"


ONE, TWO, THREE = _batch(0, b"a"), _batch(1, b"b", b"c"), _batch(3, b"d")


def test_a_stored_log_ends_at_the_first_tear_or_hole():
    assert stored_logs({_log_name(0): ONE + TWO, _log_name(3): THREE})["orders-0"].end == 4
    assert stored_logs({_log_name(0): ONE + TWO[:-1], _log_name(3): THREE})["orders-0"].end == 1
    assert stored_logs({_log_name(0): ONE, _log_name(3): THREE})["orders-0"].end == 1
    assert stored_logs({_log_name(0): ONE + bytes(200)})["orders-0"].end == 1
    flipped = bytearray(ONE + TWO)
    flipped[-1] ^= 1
    assert stored_logs({_log_name(0): bytes(flipped)})["orders-0"].end == 1


def test_segments_below_the_log_start_do_not_count():
    checkpoint = {"log-start-offset-checkpoint": b"0\n1\norders 0 3\n"}
    log = stored_logs({_log_name(0): ONE, _log_name(3): THREE, **checkpoint})["orders-0"]
    assert (log.start, log.end) == (3, 4)


def test_records_round_trip():
    (batch,) = records.whole_batches(_batch(40, b"", b"x" * 300))
    assert batch.records() == [(40, b""), (41, b"x" * 300)]


def _recover(before, synced_to, after, *, power_cut):
    watch = RecoveryWatch()
    watch.stopping({_log_name(0): before}, {"orders-0": synced_to}, power_cut=power_cut)
    watch.loaded({_log_name(0): after}, never)


def test_a_power_cut_may_take_only_what_was_not_synced():
    _recover(ONE + TWO, 1, ONE, power_cut=True)
    _recover(ONE + TWO, 1, ONE + TWO, power_cut=True)
    with pytest.raises(Violation, match=r"^L2 .* was safe"):
        _recover(ONE + TWO, 3, ONE, power_cut=True)
    with pytest.raises(Violation, match=r"^L2 .* was safe"):
        _recover(ONE + TWO, 1, b"", power_cut=True)


def test_a_kill_may_take_nothing():
    with pytest.raises(Violation, match=r"^L2 .* was safe"):
        _recover(ONE + TWO, 1, ONE, power_cut=False)


def test_recovery_invents_nothing():
    with pytest.raises(Violation, match=r"^L2 .* ever written"):
        _recover(ONE, 1, ONE + TWO, power_cut=True)
    with pytest.raises(Violation, match=r"^L2 .* another batch"):
        _recover(ONE + TWO, 1, ONE + _batch(1, b"x", b"y"), power_cut=True)
    watch = RecoveryWatch()
    watch.stopping({_log_name(0): ONE, _log_name(1): TWO}, {}, power_cut=True)
    with pytest.raises(Violation, match=r"^L2 .* hole"):
        watch.loaded({_log_name(1): TWO}, never)


def test_a_power_cut_may_bring_back_a_log_that_was_put_aside_under_its_name():
    def bring_back(new, synced_to, *, power_cut):
        aside = f"orders-0.{'0' * 32}-stray/{0:020d}.log"
        watch = RecoveryWatch()
        watch.stopping({aside: ONE + TWO, _log_name(0): new}, {"orders-0": synced_to}, power_cut=power_cut)
        watch.loaded({_log_name(0): ONE + TWO}, never)

    bring_back(b"", 0, power_cut=True)
    with pytest.raises(Violation, match=r"^L2 .* lost the batch at 0"):
        bring_back(_batch(0, b"x"), 1, power_cut=True)
    with pytest.raises(Violation, match=r"^L2 .* ever written"):
        bring_back(b"", 0, power_cut=False)


def test_a_topic_on_its_way_out_may_take_all_with_it():
    watch = RecoveryWatch()
    watch.stopping({_log_name(0): ONE}, None, power_cut=False)
    watch.loaded({}, lambda directory: directory == "orders-0")
    watch.stopping({_log_name(0): ONE}, None, power_cut=False)
    with pytest.raises(Violation, match=r"^L2 orders-0 is gone"):
        watch.loaded({}, never)


def test_a_second_stop_during_recovery_counts_as_well():
    watch = RecoveryWatch()
    watch.stopping({_log_name(0): ONE + TWO}, {"orders-0": 1}, power_cut=False)
    watch.stopping({_log_name(0): ONE + TWO}, {}, power_cut=True)
    watch.loaded({_log_name(0): ONE}, never)
    watch.stopping({_log_name(0): ONE + TWO}, None, power_cut=True)
    watch.stopping({_log_name(0): b""}, {}, power_cut=False)
    with pytest.raises(Violation, match=r"^L2"):
        watch.loaded({_log_name(0): ONE}, never)


def test_retention_by_size_leaves_the_size():
    log = stored_logs({_log_name(3): THREE})["orders-0"]
    check_retention(10, PLACE, 3, log)
    check_retention(-1, PLACE, 3, log)
    with pytest.raises(Violation, match=r"^L6"):
        check_retention(10_000, PLACE, 3, log)
    check_retention(10_000, PLACE, 3, log, 9_990)
    with pytest.raises(Violation, match=r"^L6"):
        check_retention(10_000, PLACE, 3, log, 5_000)


def test_only_a_leader_that_was_deposed_may_lack_what_the_group_has_read():
    plan = GroupPlan("readers", (PLACE,), safe=True, alone=False)
    plan.was_read(PLACE, 6)
    plan.was_read(PLACE, 5)
    with pytest.raises(AskAgain):
        plan.heed_range(PLACE, 5)
    plan.heed_range(PLACE, 6)


def _group(*attempts):
    plan = GroupPlan("readers", (PLACE,), safe=True, alone=False)
    for offset in attempts:
        plan.attempt(PLACE, offset)
    return plan


def test_a_commit_that_is_forgotten():
    plan = _group(14, 32)
    plan.acknowledge(PLACE, 14)
    plan.acknowledge(PLACE, 32)
    plan.found_commit(PLACE, 32, known=32)
    with pytest.raises(Violation, match=r"^G4"):
        plan.found_commit(PLACE, 14, known=32)


def test_a_commit_that_arrived_after_later_ones_is_where_its_group_goes_on():
    plan = _group(5, 32)
    plan.acknowledge(PLACE, 32)
    plan.found_commit(PLACE, 5, known=32)
    plan.attempt(PLACE, 15)
    plan.acknowledge(PLACE, 15)
    plan.found_commit(PLACE, 15, known=32)
    with pytest.raises(Violation, match=r"^G4"):
        plan.found_commit(PLACE, 14, known=15)


def test_an_acknowledgement_that_comes_late_excuses_nothing():
    plan = _group(10, 20)
    plan.acknowledge(PLACE, 20)
    plan.acknowledge(PLACE, 10)
    with pytest.raises(Violation, match=r"^G4"):
        plan.found_commit(PLACE, 10, known=20)


def test_a_commit_that_was_refused_is_not_in_doubt():
    plan = _group(10, 20)
    plan.refused(PLACE, 10)
    plan.acknowledge(PLACE, 20)
    with pytest.raises(Violation, match=r"^G4"):
        plan.found_commit(PLACE, 10, known=20)
