"""One file per Kafka API, numbered by its key: `pNN_name.py`."""
