"""The PySpark data source `odradek`: topics as batches and streams, in and out, as Spark's Kafka connector has them.

source                       what Spark finds by the name `odradek`, and hands its options to
options, offsets, planning   pure: what was asked for, where it begins and ends, which task reads what
batch_reader, stream_reader  the driver's side of a read, on topics_view (partitions and offsets, asked with patience)
                             and group_progress (what is done, for lag tools)
stream_offset                what a checkpoint keeps of a micro-batch: offsets, and marks of alignment (ends of
                             micro-batches at one time for all topics) and of ticks (the time that a query is told)
positions                    the column `position`, the order of all records of an application
range_reading                a task's side: the fast way (raw_fetching; raw_batches on raw_segments, raw_headers) as far
                             as it goes, librdkafka (consumers, arrow_batches) for all the rest
writer, task_producer        the way out
session, java, daemon        a Spark session that is right on one machine
"""
