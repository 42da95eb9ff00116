"""Reports: lists of sections, and the formats that render them. The only place that lays out what a person reads."""
