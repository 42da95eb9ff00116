"""What the hardware does: every PTX operation once. Section numbers are those of the PTX ISA 9.2, here and everywhere;
9.3 counts 9.7.13 as 9.7.14, and so on.
"""
