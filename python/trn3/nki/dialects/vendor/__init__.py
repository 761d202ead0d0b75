"""The names that the vendor's packages have, for this one."""
