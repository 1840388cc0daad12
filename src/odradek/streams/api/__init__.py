"""What the user writes: App, Stream, Table and their verbs. Each verb adds a node to the graph."""
