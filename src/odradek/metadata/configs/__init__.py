"""What can be configured: definitions in `topic` and `broker`, precedence in `effective`, an image's in `in_force`."""
