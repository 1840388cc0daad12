"""The connectors that Odradek brings. Each is one module, found by its entry point in pyproject.toml."""
