"""An application over its life: where its state is, what it looks like, how it is doing, and how to begin again."""
