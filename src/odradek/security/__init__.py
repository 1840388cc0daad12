"""Permissions. Every handler calls `authorize` before it acts."""
