"""Every API this broker serves, by key. Other APIs are neither advertised nor answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType

from odradek.base.invariants import invariant
from odradek.server.network.request import Api, FrameApi


def modules(*names: str) -> tuple[ModuleType, ...]:
    return tuple(import_module(f"{__package__}.{name}") for name in names)


MODULES = modules(
    "p00_produce",
    "p01_fetch",
    "p02_list_offsets",
    "p03_metadata",
    "p08_offset_commit",
    "p09_offset_fetch",
    "p10_find_coordinator",
    "p11_join_group",
    "p12_heartbeat",
    "p13_leave_group",
    "p14_sync_group",
    "p15_describe_groups",
    "p16_list_groups",
    "p18_api_versions",
    "p19_create_topics",
    "p20_delete_topics",
    "p21_delete_records",
    "p22_init_producer_id",
    "p23_offset_for_leader_epoch",
    "p24_add_partitions_to_txn",
    "p25_add_offsets_to_txn",
    "p26_end_txn",
    "p27_write_txn_markers",
    "p28_txn_offset_commit",
    "p32_describe_configs",
    "p33_alter_configs",
    "p34_alter_replica_log_dirs",
    "p35_describe_log_dirs",
    "p37_create_partitions",
    "p42_delete_groups",
    "p43_elect_leaders",
    "p44_incremental_alter_configs",
    "p45_alter_partition_reassignments",
    "p46_list_partition_reassignments",
    "p47_offset_delete",
    "p57_update_features",
    "p60_describe_cluster",
    "p61_describe_producers",
    "p64_unregister_broker",
    "p65_describe_transactions",
    "p66_list_transactions",
    "p71_get_telemetry_subscriptions",
    "p72_push_telemetry",
    "p74_list_config_resources",
    "p75_describe_topic_partitions",
)


def load_apis() -> Mapping[int, Api | FrameApi]:
    return apis_of(MODULES)


def apis_of(served: Iterable[ModuleType]) -> Mapping[int, Api | FrameApi]:
    """Each module has one `API`."""
    apis: dict[int, Api | FrameApi] = {}
    for module in served:
        api = module.API
        invariant(module.__name__.rpartition(".")[2].startswith(f"p{api.key:02}_"), f"{module} serves key {api.key}")
        apis[api.key] = api
    return apis
