"""The async shell: listener, framing, back-pressure, reply order, one handler per Kafka API.

The protocol rules are in the layers below, not here.
"""
