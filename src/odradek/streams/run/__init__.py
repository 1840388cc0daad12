"""What runs an application and shows it: its queries, their sinks, its views, its description, its reset."""
