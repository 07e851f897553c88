"""What runs inside the sandbox for `symbolic.py`: the text of a program, never run here.

In    nothing
Out   PROGRAM, which defines `main(request)` and prints the result or exits with a complaint
Not   safe by itself: it evaluates what it reads, as sympy does
"""

from __future__ import annotations

from typing import Final

PROGRAM: Final = r"""
import json
import re
import sys

import sympy
from sympy.parsing import sympy_parser

RULES = (
    *sympy_parser.standard_transformations,
    sympy_parser.convert_xor,
    sympy_parser.implicit_multiplication,
    sympy_parser.rationalize,
)
RELATION = re.compile(r"(?<![<>=!])=(?!=)")


class Complaint(Exception):
    pass


def read(text, what="the expression"):
    if not text.strip():
        raise Complaint(f"{what} is empty.")
    try:
        value = sympy_parser.parse_expr(text, transformations=RULES)
    except MemoryError:
        raise
    except Exception as error:
        raise Complaint(f"{what} {text[:60]!r} can't be read ({type(error).__name__}).") from None
    if not isinstance(value, (sympy.Basic, sympy.MatrixBase)):
        raise Complaint(f"{what} {text[:60]!r} is no expression.")
    return value


def symbol(text):
    value = read(text, "the variable")
    if not isinstance(value, sympy.Symbol):
        raise Complaint(f"{text[:60]!r} is no variable. Give a name such as x.")
    return value


def equation(text):
    sides = RELATION.split(text)
    if len(sides) == 1:
        value = read(text)
        is_relation = isinstance(value, sympy.logic.boolalg.Boolean)
        return value if is_relation else sympy.Eq(value, 0)
    if len(sides) > 2:
        raise Complaint("an equation has one =. Separate several with ;.")
    return sympy.Eq(read(sides[0]), read(sides[1]))


def solve(asked):
    equations = [equation(part) for part in asked["equations"].split(";") if part.strip()]
    variables = [symbol(part) for part in asked["variables"].split(",")]
    if not equations:
        raise Complaint("there is no equation.")
    if any(one == sympy.false for one in equations):
        return "no solution"
    equations = [one for one in equations if one != sympy.true]
    if not equations:
        return "true for every value"
    if not all(isinstance(one, sympy.Eq) for one in equations):
        if len(variables) > 1:
            raise Complaint("inequalities are solved for one variable.")
        return said_of(sympy.reduce_inequalities(equations, variables))
    found = sympy.solve(equations, variables, dict=True)
    lines = [", ".join(f"{name} = {value}" for name, value in one.items()) for one in found]
    return "\n".join(lines) or "no solution"


def said_of(condition):
    words = {sympy.true: "true for every value", sympy.false: "no solution"}
    return words.get(condition) or str(condition)


def integrate(asked):
    name = symbol(asked["variable"])
    bounds = [asked["lower"], asked["upper"]]
    if bool(bounds[0].strip()) != bool(bounds[1].strip()):
        raise Complaint("give both bounds, or none.")
    inside = (name, *(read(bound, "the bound") for bound in bounds)) if bounds[0].strip() else name
    value = sympy.integrate(read(asked["expression"]), inside)
    if value.has(sympy.Integral):
        raise Complaint("no closed form was found.")
    return str(value)


def differentiate(asked):
    if not 1 <= asked["times"] <= 20:
        raise Complaint("times is from 1 to 20.")
    return str(sympy.diff(read(asked["expression"]), symbol(asked["variable"]), asked["times"]))


def limit(asked):
    sides = {"left": "-", "right": "+", "both": "+-"}
    if asked["side"] not in sides:
        raise Complaint("side is left, right or both.")
    to = read(asked["to"], "what it goes to")
    side = sides[asked["side"]] if to not in (sympy.oo, -sympy.oo) else "+"
    try:
        value = sympy.limit(read(asked["expression"]), symbol(asked["variable"]), to, side)
    except ValueError as error:
        raise Complaint(str(error)) from None
    if value == sympy.zoo:
        raise Complaint("there is no limit: it grows without bound, and not to one side.")
    if value.has(sympy.Limit) or value is sympy.nan:
        raise Complaint("no limit was found.")
    return str(value)


def simplify(asked):
    return str(sympy.simplify(read(asked["expression"])))


def factor(asked):
    value = read(asked["expression"])
    if not value.is_Integer:
        return str(sympy.factor(value))
    primes = sympy.factorint(int(value))
    return " * ".join(f"{p}^{n}" if n > 1 else str(p) for p, n in sorted(primes.items())) or "1"


def main(request):
    asked = json.loads(request)
    try:
        said = {
            "solve": solve,
            "integrate": integrate,
            "differentiate": differentiate,
            "limit": limit,
            "simplify": simplify,
            "factor": factor,
        }[asked["what"]](asked)
    except MemoryError:
        raise
    except Complaint as error:
        sys.exit(" ".join(str(error).split()))
    except Exception as error:
        sys.exit(" ".join(f"sympy can't do it ({type(error).__name__}: {error})"[:280].split()))
    most = asked["most"]
    print(said if len(said) <= most else f"{said[:most]} [... {len(said) - most} characters cut]")
"""
