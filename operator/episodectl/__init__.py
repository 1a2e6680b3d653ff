"""episodectl: works with tasks and Episodes from the command line."""
