"""The PySpark data source `odradek`: reads and writes topics in batches and streams, like Spark's Kafka connector.

source                       The class that Spark finds by the name `odradek`. It receives the options.
options, offsets, planning   Pure functions: what to read, where it begins and ends, which task reads which range.
batch_reader, stream_reader  The driver's side of a read. Both use topics_view (partitions and offsets, with retries)
                             and group_progress (commits finished offsets for lag tools).
stream_offset                The offset of a micro-batch in a checkpoint: offsets of partitions, and two kinds of marks.
                             Alignment marks end the micro-batches of all topics at one time; tick marks carry a time.
positions                    The column `position`: the order of all records of an application.
range_reading                A task's side of a read. It uses raw_fetching (raw_batches, raw_segments, raw_headers) if
                             possible, and librdkafka (consumers, arrow_batches) otherwise.
writer, task_producer        The sink.
session, java, daemon        A Spark session with settings for one machine.
"""
