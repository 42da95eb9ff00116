"""What the hardware does: every PTX operation once."""
