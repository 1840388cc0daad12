"""The one HTTP stack: a Starlette application served by uvicorn, event streams, errors as JSON.

Nothing is imported here: `listening` alone costs a node nothing before its first HTTP request.
"""
