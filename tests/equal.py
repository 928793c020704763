"""Functions that compare equal and compute different things."""


class Equal:
    """A function that compares equal to all of its class."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return self.factor * x

    def __eq__(self, other):
        return type(other) is type(self)

    def __hash__(self):
        return 0
