"""The state of the cluster at an offset of the metadata log: an immutable image, built by replaying records.

Makes no decisions.
"""
