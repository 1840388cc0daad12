"""The service behind `odradek monitor`: reads commits and log ends of clusters, serves Burrow's API."""
