"""Alerts without I/O: rules on samples of metrics, when they open and close, and the messages that must be sent."""
