"""Every API that a controller serves on its own listener, by key."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.server.api.table import apis_of, modules
from odradek.server.network.request import Api, FrameApi

MODULES = modules(
    "p01_metadata_fetch",
    "p18_api_versions",
    "p19_create_topics",
    "p20_delete_topics",
    "p33_alter_configs",
    "p37_create_partitions",
    "p43_elect_leaders",
    "p44_incremental_alter_configs",
    "p45_alter_partition_reassignments",
    "p46_list_partition_reassignments",
    "p52_vote",
    "p53_begin_quorum_epoch",
    "p54_end_quorum_epoch",
    "p55_describe_quorum",
    "p56_alter_partition",
    "p57_update_features",
    "p58_envelope",
    "p59_fetch_snapshot",
    "p60_describe_controllers",
    "p62_broker_registration",
    "p63_broker_heartbeat",
    "p64_unregister_broker",
    "p67_allocate_producer_ids",
    "p70_controller_registration",
    "p73_assign_replicas_to_dirs",
    "p80_add_raft_voter",
    "p81_remove_raft_voter",
    "p82_update_raft_voter",
)


def load_controller_apis() -> Mapping[int, Api | FrameApi]:
    return apis_of(MODULES)
