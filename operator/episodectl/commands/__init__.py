"""The commands: what the user gives, and what is printed."""
