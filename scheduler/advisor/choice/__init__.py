"""Which ways to run a job are worth showing, and why: `advise` answers a question with plans."""
