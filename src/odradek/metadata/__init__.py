"""What is true in the cluster at offset n: an immutable image, built by replaying metadata records.

Decides nothing.
"""
