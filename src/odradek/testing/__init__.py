"""The embedded broker and the pytest plug-in: a real broker inside a test."""
