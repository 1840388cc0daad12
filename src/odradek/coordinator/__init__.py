"""The runtime of coordinators: it hosts one replicated state machine for each led partition of an internal topic.

`runtime` follows leadership, loads logs and carries out effects. `engine` runs one state machine on one partition,
without I/O. A coordinator writes only through its port, `ports.Leadership`.
"""
