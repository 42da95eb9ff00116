"""The library's mutation score: what the engines notice of its mutants."""
