"""What `odradek demo` shows: trucks on Spark (`make demo`), and page views on the broker alone."""
