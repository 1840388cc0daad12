import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A simulation waits for nothing: beside other load it takes several times as long."""
    for item in items:
        if item.get_closest_marker("sim"):
            item.add_marker(pytest.mark.timeout(900))
