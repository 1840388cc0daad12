"""The messages of a topic: reading, searching, tailing, and showing them."""
