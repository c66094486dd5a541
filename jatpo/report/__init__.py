"""Replays, figures and the report page."""
