"""Results as text and as JSON: the only place that lays out what a person reads."""
