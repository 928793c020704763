"""aehmc's samplers, as one program each, find what is known."""

from test_sampling import assert_means


def test_eight_schools_by_kernels_of_aehmc(kernels, capsys):
    found = kernels.main()
    assert list(found) == ["HMC", "NUTS"]
    for draws in found.values():
        for i, mean in enumerate(kernels.exact_means()):
            assert_means(draws[..., i], mean)
    assert "NUTS: one program of" in capsys.readouterr().out
