"""What stands behind the ``trn3`` command; `trn3.__main__` parses its arguments."""
