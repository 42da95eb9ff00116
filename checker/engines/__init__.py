"""The engines: one protocol, one table of them by name, and one place where their answers become one."""
