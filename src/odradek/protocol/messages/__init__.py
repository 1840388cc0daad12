"""The tables: one file per API with its request and response, and the records that logs hold."""
