"""The shell of the metadata quorum: does on disk and over the network what the core in `odradek.quorum` decides."""
