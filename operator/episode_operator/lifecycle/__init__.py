"""The life of an Episode as one pure function over one transition table."""
