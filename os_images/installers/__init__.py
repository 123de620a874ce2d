"""Ways to lay an image: today one, by our own deploy agent."""
