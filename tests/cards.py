"""Cards of classifiers, in the order in which tests name their fields."""

from foveal.tasks.classify.card import ClassifyCard


def classify_card(model="some", family="icam", config=None, classes=("a", "b"), multi_label=False, **more):
    return ClassifyCard(
        model=model, family=family, config=config or {}, classes=tuple(classes), multi_label=multi_label, **more
    )
