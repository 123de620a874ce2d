"""What an operator types: one module a group of commands. Prefect is imported only by those that start a flow."""
