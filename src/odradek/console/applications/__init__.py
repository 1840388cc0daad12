"""Streams applications as the console sees them: by what they tell the cluster, and the lag of their groups."""
