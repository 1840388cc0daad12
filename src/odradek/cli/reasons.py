"""Why something failed, for people."""

from __future__ import annotations


def reason(problem: Exception) -> str:
    """The text of an error. Python's own errors about files begin with a number, and name the file last."""
    if isinstance(problem, OSError) and problem.filename is not None and problem.strerror:
        return f"cannot use {problem.filename}: {problem.strerror}"
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    return str(problem)
