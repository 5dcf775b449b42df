import pytest

from trainer.bench import floor


def test_operations_of_a_network_worked_out_by_hand():
    # 3 -> 4 -> 2, batch 10. s and s': 2 * 2 * 10 * (12 + 8) = 800; kernels: 2 * 10 * 20 = 400; through 4 -> 2: 160.
    assert floor.dense_operations((3, 4, 2), 10) == 1360


def test_operations_of_the_papers_network():
    # 597 x 1024 + 1024 x 1024 + 1024 x 5 = 1,665,024; times 600, and 1,053,696 times 200.
    assert floor.dense_operations((597, 1024, 1024, 5), 100) == 1_665_024 * 600 + 1_053_696 * 200


@pytest.mark.parametrize(("algorithm", "accesses"), [("sgd", 3), ("adam", 7)])
def test_an_update_moves_gradients_weights_and_moments_including_biases(algorithm, accesses):
    # 3 x 4 + 4 + 4 x 2 + 2 = 26 weights of 4 bytes.
    assert floor.update_bytes((3, 4, 2), algorithm) == 26 * 4 * accesses


def test_the_floor_is_products_then_update():
    bound = floor.step_floor((3, 4, 2), 10, "sgd", floor.Rates(products=1360.0, bandwidth=312.0))
    assert bound.seconds == pytest.approx(1.0 + 1.0)


def test_rates_are_measured_and_sane(monkeypatch):
    monkeypatch.setattr(floor, "PRODUCT_SIZE", 64)
    monkeypatch.setattr(floor, "ARRAY_SIZE", 1 << 12)
    rates = floor.measure()()
    # A processor does between 1e6 and 1e14 operations a second, and moves between 1e6 and 1e13 bytes.
    assert 1e6 < rates.products < 1e14
    assert 1e6 < rates.bandwidth < 1e13
