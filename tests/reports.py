"""Tables of cases like those that users reported."""


def recorded(cases, report, *rest):
    """Return a decorator that adds a function to a table, by its name, with what else is given."""

    def add(build):
        assert build.__name__ not in cases and report
        cases[build.__name__] = (build, *rest) if rest else build
        return build

    return add
