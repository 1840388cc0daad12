from hypothesis import settings

# A busy machine is not a failure.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
