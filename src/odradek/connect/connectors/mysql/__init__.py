"""Captures the changes of MariaDB and MySQL from the binlog."""
