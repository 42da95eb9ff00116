"""Schedules that were executed: traces, who is stuck for what, and replays."""
