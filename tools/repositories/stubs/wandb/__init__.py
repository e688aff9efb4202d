"""Stands in for wandb, which sends what is trained somewhere: imported, never asked for."""
