"""From the graph to Spark: what each node does to DataFrames, the state it keeps, and Spark's errors explained."""
