"""From the graph of an application to one Spark query: sources, projections in the JVM, operators in Python.

All rows of a query flow through one line of operators. Between two operators the JVM evaluates the expressions of the
steps without state, for all sinks and steps at once (`projecting`). An operator (`operators`) writes to topics, calls
the user's functions and hosts the steps with state, for which rows are exchanged so that a key is in one shard.

levels       the operator that hosts each step, and the inputs of each step
projecting   the lanes from one operator to the next as columns
aggregating  an aggregate as calls of single functions, and what is made of their results
hosting      the steps of the engine for the nodes of the graph
operators    what runs in the Python workers
condensing   its plan, optimised once for all micro-batches
assembling   all of it as one streaming DataFrame
"""
