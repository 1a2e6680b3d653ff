"""The custom resources as pydantic models: the one source of crds/*.yaml."""
