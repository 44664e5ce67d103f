"""What is asked of the advisor and what it answers: numbers and words, no code and no weights."""
