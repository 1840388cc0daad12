"""The command line `odradek`: one file per noun, no logic of its own."""
