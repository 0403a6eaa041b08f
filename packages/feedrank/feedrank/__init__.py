"""Features and models of the ranked view: what `timeline` serves with, and `feedctl rank` trains and judges."""
