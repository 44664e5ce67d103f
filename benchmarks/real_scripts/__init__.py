"""Training scripts as people have them, sent through the product: what runs, resumes and comes back."""
