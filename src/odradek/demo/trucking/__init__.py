"""A fleet of trucks in the Midwest, watched live: a simulator, an application on Spark, a page with a map."""
