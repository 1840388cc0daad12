"""The real Clock, Rng, Disk, Net and Spawner. Imported by `node` alone."""
