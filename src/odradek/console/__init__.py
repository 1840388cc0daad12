"""The web console: pages about a cluster, rendered on the server. A process of its own."""
