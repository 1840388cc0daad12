"""The state of a service in three compacted topics, in Kafka Connect's formats: configs, statuses and offsets."""
