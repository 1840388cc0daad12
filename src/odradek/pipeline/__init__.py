"""What every pipeline on Spark needs, whether it is written with the Streams API or run as a connector.

Record formats, dead letters, and the life cycle of a query: where it keeps its checkpoint, who may run it, how it is
started, recorded and stopped. Nothing here knows a graph of steps, or imports a package that does.
"""
