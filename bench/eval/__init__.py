"""How well questions in natural language find the right session and the right turn."""
