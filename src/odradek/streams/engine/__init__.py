"""The engine: steps with state, as plain Python that runs inside Spark's tasks. It imports neither Spark nor Arrow.

The results of an application are a function of its input in one canonical order (`order`), and do not depend on how the
input is cut into micro-batches. Event time moves with that order (`clock`), row by row and not batch by batch.

order      the canonical order of records, and of what is made of them
clock      event time of a shard: how far each source has come
store      the state of a shard on disk: values by key and timers, one version per micro-batch
shard      one micro-batch of one shard: rows and time in order, delivered to the steps
steps      what each stateful verb does with a row and with the passing of time
"""
