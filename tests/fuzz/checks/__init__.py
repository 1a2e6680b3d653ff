"""One module per thing that reads what others wrote: what it must never do with any input."""
