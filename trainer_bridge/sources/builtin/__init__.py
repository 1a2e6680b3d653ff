"""Tasks that come with the bridge, so that a first run needs no dataset."""
