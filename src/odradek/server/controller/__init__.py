"""The active controller, and how a request reaches it from any broker."""
