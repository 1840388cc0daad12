"""Each rule that protects data is switched off once, and the simulation must notice.

A rule that nothing misses is either not needed or not tested. The first seed tried is one that noticed when this was
written; code that changes makes other seeds of it, so the others up to the bound get their chance.
"""

from dataclasses import dataclass, field
from itertools import count

import pytest

from odradek.coordinator.group import committing
from odradek.log import producer_history, safeguards
from odradek.log.directory import LogDirectory
from odradek.replication.partition import Partition
from odradek.server import coordination
from odradek.server.producer_ids import ProducerIds
from odradek.sim.knobs import STOPS, Focus
from odradek.sim.world import World

BOUND = 150
STORM = Focus(faults=STOPS)
LOOSE_STORM = Focus(faults=STOPS, syncs_all=False)


def nothing(*_):
    return None


def always(*_):
    return True


def never(*_):
    return False


async def at_once(*_):
    return None


def sync_but_metadata(file):
    if not file.path.startswith("__cluster_metadata"):
        file.sync()


async def count_in_memory(producer_ids):
    producer_ids._block = producer_ids._block if isinstance(producer_ids._block, count) else count()
    return next(producer_ids._block)


@dataclass
class Rule:
    where: object
    name: str
    without: object
    first_seed: int
    focus: Focus = field(default_factory=Focus)
    says: str = ""

    def __str__(self):
        return self.says or self.name


RULES = [
    Rule(safeguards, "accepts_checksum", always, 0),
    Rule(safeguards, "recovers_checksum", always, 68, LOOSE_STORM),
    Rule(safeguards, "scans_after_unclean_stop", never, 0, STORM),
    Rule(safeguards, "cuts_torn_tail", never, 8, STORM),
    Rule(safeguards, "drops_what_follows_a_hole", never, 34, LOOSE_STORM),
    Rule(safeguards, "expects_sequence", always, 0),
    Rule(safeguards, "recognises_duplicates", never, 0),
    Rule(safeguards, "fences_old_producer_epochs", never, 0),
    Rule(safeguards, "stays_offline_after_failure", never, 31, STORM),
    Rule(safeguards, "forgets_clean_stop_before_loading", nothing, 1, STORM),
    Rule(safeguards, "is_spoken_of", always, 21, STORM),
    Rule(safeguards, "sync_file", nothing, 1, STORM),
    Rule(safeguards, "sync_names", nothing, 1, STORM),
    Rule(safeguards, "sync_leader_epochs", nothing, 3, STORM),
    Rule(safeguards, "sync_everything", nothing, 1, STORM),
    Rule(
        safeguards,
        "keeps_from_high_watermark",
        never,
        2,
        Focus(syncs_all=True, slow_call_mean_us=200_000, retention_bytes=100),
    ),
    Rule(safeguards, "sync_file", sync_but_metadata, 1, STORM, says="sync_metadata_before_answering"),
    Rule(Partition, "_hold", nothing, 1, STORM, says="sync_before_acknowledging"),
    Rule(ProducerIds, "next_id", count_in_memory, 0, says="producer_ids_from_the_log"),
    Rule(producer_history, "_look_back", nothing, 29, Focus(faults=("kill", "clean stop", "reset"))),
    Rule(LogDirectory, "_write_log_starts", nothing, 2, Focus(faults=("clean stop",))),
    Rule(committing, "validate_commit", nothing, 0, Focus(group_members=3)),
    Rule(
        coordination,
        "_until_committed",
        at_once,
        0,
        Focus(faults=("kill",), syncs_all=True, slow_call_mean_us=30_000, group_members=3),
    ),
]


@pytest.mark.sim
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_simulation_misses(rule, monkeypatch, caplog):
    caplog.set_level("CRITICAL")
    monkeypatch.setattr(rule.where, rule.name, rule.without)
    for seed in (rule.first_seed, *range(BOUND)):
        problem = World(seed, focus=rule.focus).run().problem
        if problem is not None:
            print(f"{rule}: seed {seed}: {problem}")
            return
    pytest.fail(f"{BOUND} seeds without {rule}, and nobody noticed")
