"""The ranked view: from predictions to an order, and what the house puts between its posts. Pure.

Predictions are weighed (`scoring`), the score rules change how much a score counts, the place rules decide on places
(`rules`, `arrangement`), and every move is recorded, so that each post can say why it is where it is.
"""
