"""EpisodeResults: the payload codec, shared with the trainer bridge, and the writer."""
