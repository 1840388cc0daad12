"""Our doors to any Kafka cluster, on librdkafka: admin calls and the names of client configs."""
