"""Who may do what. Every handler asks `authorize` before it acts."""
