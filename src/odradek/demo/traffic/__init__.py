"""Page views through a topic to two consumer groups: the broker alone, no Java needed."""
