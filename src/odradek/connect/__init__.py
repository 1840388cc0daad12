"""Connectors: configured as data, they bring other systems' data into topics and take topics out, in tasks on Spark.

The parts from the bottom to the top: `records`, `options` and `interface` are what authors of connectors use;
`storage` keeps configs, offsets and statuses in topics; `tasks` runs inside Spark's workers; `service` supervises the
tasks from Spark's driver; `rest` is the HTTP interface; `connectors` are the connectors that Odradek brings.
"""
