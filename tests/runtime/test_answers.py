"""From logits to an answer: by hand, and what is no number."""

import numpy as np
import pytest

from foveal.errors import FovealError
from foveal.runtime.answers import decide, found, probabilities, probabilities_or_nan


def test_decisions_by_hand():
    probability = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])
    assert decide(probability, False).tolist() == [1, 0]
    assert decide(probability, True).tolist() == [[False, True, False], [True, False, False]]
    assert decide(probability, True, np.array([0.2, 0.6, 0.3])).tolist() == [[True, False, True], [True, False, True]]
    assert found(probability, False).tolist() == [[False, True, False], [True, False, False]]
    two = np.array([[0.7, 0.3], [0.5, 0.5]])
    assert decide(two, False, 0.3).tolist() == [1, 1]
    assert decide(two, False, 0.4).tolist() == [0, 1]
    with pytest.raises(FovealError, match="expected two classes, got 3"):
        decide(probability, False, 0.4)


def test_a_row_that_is_no_number():
    logits = np.array([[0.0, np.log(3)], [np.nan, 1.0], [0.0, np.inf]])
    rows = probabilities_or_nan(logits, False)
    np.testing.assert_allclose(rows[0], [1 / 4, 3 / 4])
    assert np.isnan(rows[1:]).all()
    with pytest.raises(FovealError, match="logits: expected numbers, got nan or infinity"):
        probabilities(logits, False)


def test_temperature():
    logits = np.array([[0.0, 2 * np.log(3)]])
    np.testing.assert_allclose(probabilities(logits, False, 2.0), [[1 / 4, 3 / 4]])
    np.testing.assert_allclose(probabilities(logits, True, 2.0), [[1 / 2, 3 / 4]])
