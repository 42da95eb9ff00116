"""What this project proves about itself; nothing of the product imports it."""
