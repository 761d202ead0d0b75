//! Against what is computed by hand.
