"""The one HTTP stack: a Starlette application served by uvicorn, event streams, errors as JSON."""
