"""In what order: the seven stages, the flows that run them, and the face an operator sees."""
