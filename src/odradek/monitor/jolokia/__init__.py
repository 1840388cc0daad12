"""Jolokia's protocol for the MBeans of a registry, without I/O: names, requests, and answers from a snapshot.

The reference is Jolokia 2.6 as an agent of Apache Kafka: `tests/interop/test_jolokia.py` sends both the same requests.
"""
