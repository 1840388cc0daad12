"""The real Clock, Rng, Disk, Net and Spawner. Imported only by `node`."""
