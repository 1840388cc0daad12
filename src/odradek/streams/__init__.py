"""The Streams API: streams, tables, windows, joins and state, compiled to Structured Streaming queries."""
