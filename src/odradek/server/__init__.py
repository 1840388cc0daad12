"""The async shell: listener, framing, back-pressure, reply order, one handler per Kafka API.

Holds no rule that belongs below.
"""
