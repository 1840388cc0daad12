"""Consumer lag without I/O: windows of commits, samples of log ends, and Burrow's evaluation of both."""
