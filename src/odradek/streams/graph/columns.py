"""Columns that rows have beside the user's."""

CARRIED = ("_key", "_time", "_deleted", "_record")
"""Where they are, they go along with whatever is selected."""

HEADERS = "headers"
"""Of a source with headers=True: array<struct<key: string, value: binary>>, as Spark's connectors have them."""

WINDOW_COLUMNS = ("window_start", "window_end")
"""Of the results of a window; with the columns of the group they are the key."""
