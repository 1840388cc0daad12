"""Programs that copy a topic in transactions: consume, produce, and commit the offsets, until they are killed."""
