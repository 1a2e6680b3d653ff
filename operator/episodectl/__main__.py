"""`python -m episodectl`."""

from episodectl.cli import app

if __name__ == "__main__":
    app()
