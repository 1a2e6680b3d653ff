"""Examples; `python -m examples.demo` runs 01 to 03 end to end."""
