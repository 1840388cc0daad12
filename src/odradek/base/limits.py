"""Every limit in one place, with its unit in its name. A limit that a config can change is only the default here."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB

request_bytes_max = 100 * MIB
request_bytes_min = 8  # api key, api version, correlation id
# The sum over all arrays of one message: a request with a million elements would block the event loop.
array_elements_max = 100_000
tagged_fields_max = 64
topic_name_chars_max = 249
client_id_chars_max = 1024
client_software_chars_max = 255  # name and version, each
error_message_chars_max = 1000
decompressed_batch_bytes_max = 100 * MIB
connection_unsent_bytes_max = 64 * MIB
connection_parked_requests_max = 1000
receive_buffer_bytes = 256 * KIB
partial_requests_bytes_max = 512 * MIB  # of all connections together
connection_close_grace_ms = 2_000
peer_reply_bytes_max = 128 * MIB  # the largest produced batch plus the rest of a fetch response
peer_requests_max = 1000  # to one node and for one purpose, sent or queued
peer_connect_ms_max = 2_000
group_id_chars_max = 1024
member_names_chars_max = 1024  # protocol type, protocols, instance id: stored with a length of 16 bits
member_reason_chars_max = 255  # what clients send
pending_members_per_group_max = 10_000
transactional_id_chars_max = 1024
marker_partitions_per_request_max = 5_000
# A request for the next transaction waits for the end of the current one, and its connection with it.
transaction_end_wait_ms_max = 100
waiting_requests_per_transactional_id_max = 10
# Producer epochs are 16 bits wide. Clients never get the largest, so that a coordinator can always fence them.
producer_epoch_max = 2**15 - 1
pattern_ms_max = 5_000  # to match a regular expression of a client
member_metadata_bytes_max = 1 * MIB
metadata_records_per_decision_max = 10_000
metadata_batch_bytes_max = 8 * MIB
metadata_snapshot_part_bytes = 8 * MIB
metadata_snapshot_bytes_max = 1024 * MIB
decision_sentence_chars_max = 4_000  # in a log line; a request may name a million topics
config_value_chars_max = 32_767
client_metrics_name_chars_max = 249
client_metrics_subscriptions_max = 256  # of the cluster
# Metrics that clients push (KIP-714). They are decompressed and read off the event loop, one push at a time.
telemetry_instances_max = 4_096  # clients that push, of a broker
telemetry_decompressed_bytes_max = 8 * MIB
telemetry_points_max = 4_096  # of one push
telemetry_fields_max = 250_000  # of one push, in all its messages
telemetry_attributes_max = 32  # of one point
telemetry_waiting_bytes_max = 32 * MIB  # of all pushes that wait to be read
telemetry_series_max = 20_000  # exported, of all clients of a broker
telemetry_series_per_client_max = 1_000
telemetry_labels_per_metric_max = 100  # different labels of the present series of a metric
telemetry_name_chars_max = 200  # of a metric
telemetry_text_chars_max = 256  # of the key or value of an attribute
fetch_session_partitions_max = 500_000  # over all sessions of a broker
fetch_checked_batches_max = 4_000  # in one reply to a client that cannot read zstd: the codec of each is looked at

# Compacted topics and recompression need the single records of a batch. A compressed or large batch is read off the
# event loop. Some of the threads for slow calls stay free for fsync.
checked_batch_records_max = 200_000
checked_batch_headers_max = 1_000_000  # of all its records
checked_batch_inline_bytes_max = 16 * KIB
checked_batches_at_once_max = 2
unappended_bytes_max = 256 * MIB  # of all batches that wait for it
unverified_bytes_max = 256 * MIB  # of all requests that wait for the coordinators of their transactions
record_errors_max = 10

# Compaction of more than this runs in its own process; for less, starting a process costs more than it saves.
cleaning_in_thread_bytes_max = 256 * KIB

# Metrics. Collecting this many readings takes well under a millisecond, the longest that a scrape holds an event loop.
metric_readings_per_slice_max = 250
metric_series_max = 100_000  # of one process, made by its instruments
# Jolokia: one HTTP request.
jolokia_request_bytes_max = 256 * KIB
jolokia_bulk_requests_max = 500
jolokia_mbeans_per_answer_max = 100_000  # in all answers of a list together
object_name_chars_max = 2_000
# Topics and partitions that one client uses.
client_metric_topics_max = 200
client_metric_partitions_max = 1_000
otlp_points_per_request_max = 2_000  # some 300 KB; collectors refuse bodies of several MB
# Larger datagrams are cut into IP fragments; Datadog's agent reads 8 KiB from a Unix socket.
dogstatsd_udp_bytes_max = 1432
dogstatsd_unix_bytes_max = 8 * KIB
# The monitor's history of log ends, for lag in seconds: dense for the last minutes, sparse for days.
log_end_samples_max = 40
alert_messages_max = 10_000  # of the monitor, not yet delivered
alert_scrape_bytes_max = 64 * MIB
console_form_bytes_max = 4 * MIB  # a record that is produced is part of a form
