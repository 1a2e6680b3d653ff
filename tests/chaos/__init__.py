"""Random faults over mixed Episodes with known right answers: `make chaos N=200 SEED=7`."""
