"""How hypothesis runs in all tests: no clock judges, since other work may have the CPU."""

from hypothesis import settings

settings.register_profile("tests", deadline=None)
settings.load_profile("tests")
