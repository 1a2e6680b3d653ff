"""What ends the trainer, told in one line."""


class TrainerError(Exception):
    """Something that the trainer cannot go on with; the message says what to do."""
