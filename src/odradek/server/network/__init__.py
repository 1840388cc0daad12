"""Connections: frames in, one life cycle for each request, replies out in order; and requests to other nodes."""
