"""Wrong calls are met by messages that name the argument, what came, and the way out."""

import inspect

import pytest
from sklearn.base import clone

from tests.gp.wrong.frames import FRAMES
from tests.gp.wrong.graphs import GRAPHS
from tests.gp.wrong.models import MODELS
from tests.gp.wrong.shared import NAMED, classifier, of_terms, on_mesh, through_time
from tests.gp.wrong.values import VALUES

WRONG = {
    f"{kind}, {name}": case
    for kind, cases in zip(
        ("graphs", "models", "values", "frames"), (GRAPHS, MODELS, VALUES, FRAMES), strict=True
    )
    for name, case in cases.items()
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", WRONG)
def test_messages_name_the_argument_what_came_and_the_way_out(name):
    call, error, words = WRONG[name]
    with pytest.raises(error) as raised:
        call()
    assert type(raised.value) is error
    message = str(raised.value)
    assert [word for word in words if word not in message] == []
    for raw in ("unexpected keyword", "not iterable", "cast to nan", "positional argument"):
        assert raw not in message


def test_arguments_of_other_models_are_none_of_scikit_learn():
    for estimator in (classifier(), through_time(), on_mesh(), of_terms()):
        names = set(inspect.signature(type(estimator)).parameters)
        assert set(estimator.get_params(deep=False)) == names
        copy = clone(estimator)
        assert not hasattr(copy, "converged_")
        assert copy.get_params(deep=False).keys() == names
    assert clone(classifier()).graph is NAMED
