"""Code with a NUL in it, code that is no text."""

# ends: error
# made: yes
CODES = ["print(1)\0print(2)", "\0", "print('\ud800')", "\ufeff\ufeff", "# coding: nonsense\n1/0"]
