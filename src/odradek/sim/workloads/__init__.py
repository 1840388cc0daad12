"""What the simulated clients do. Each keeps account of what it was told and complains as soon as that changes."""
