"""Verdicts about what people have: the text of a kernel and a launch of it. Front ends make kernels, engines decide."""
