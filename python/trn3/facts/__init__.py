"""Published figures, and what is common to all that is made of them."""
