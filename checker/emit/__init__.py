"""A kernel that was recovered from elsewhere, written as a specification in the language."""
