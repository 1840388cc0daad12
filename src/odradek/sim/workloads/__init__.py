"""What the simulated clients do. Each remembers the answers it got, and fails as soon as a later one contradicts."""
