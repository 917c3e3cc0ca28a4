"""Tells rootrank's event bus which Slurm jobs ended. Standard library only, Python 3.6 or newer."""
