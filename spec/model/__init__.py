"""From a kernel to a Machine: fields, actions and properties as plain data."""
