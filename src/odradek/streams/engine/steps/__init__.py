"""The stateful verbs, one module each: what a step does with a row, and with the passing of time."""
