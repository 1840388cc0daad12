"""Keys and values of records as documents and as text: JSON, Avro, Protobuf, text, numbers, hex, or detected.

Payloads are untrusted. Every decoder bounds its work by the size of the payload, and the text that it returns.
"""
