"""Fuzzing: properties with readings of their own to compare with, and atheris to look for breaks.

`checks/` holds the properties. Each takes bytes, so that atheris can drive it (`make fuzz`), or
values, so that the hypothesis tests in tests/unit/test_fuzz_*.py can. `seeds/` are the inputs that
a target starts from; every one of them is also a unit test.
"""
