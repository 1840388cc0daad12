"""What several test suites need: a broker process, a wiretap."""
