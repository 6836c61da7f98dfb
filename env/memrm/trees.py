"""Boosted trees as plain values: scikit-learn fits them, and nobody needs it to read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ...data.record import Record

Index = Annotated[int, Field(ge=-1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Table = NDArray[np.float64]
"""Shape ``(rows, features)``."""


class Tree(Record):
    """A regression tree; lists are aligned with its nodes, the root first."""

    feature: list[Index]
    """-1 in a leaf."""
    threshold: list[Finite]
    """A feature that is at most this goes left."""
    left: list[Index]
    right: list[Index]
    value: list[Finite]
    """Log-odds that a leaf adds."""

    @model_validator(mode="after")
    def _check_nodes(self) -> Tree:
        nodes = len(self.feature)
        if not nodes or any(len(values) != nodes for values in (self.threshold, self.left, self.right, self.value)):
            raise ValueError("its lists are empty, or not of one length")
        for node, feature in enumerate(self.feature):
            if feature >= 0 and not all(node < child[node] < nodes for child in (self.left, self.right)):
                raise ValueError(f"node {node}: its children are not after it")
        return self

    def values(self, table: Table) -> NDArray[np.float64]:
        """Return the value of each row's leaf; shape ``(rows,)``."""
        feature, threshold = np.array(self.feature), np.array(self.threshold)
        left, right = np.array(self.left), np.array(self.right)
        at, rows = np.zeros(len(table), dtype=np.intp), np.arange(len(table))
        while (inner := feature[at] >= 0).any():
            further = np.where(table[rows, feature[at]] <= threshold[at], left[at], right[at])
            at = np.where(inner, further, at)
        return np.array(self.value)[at]


class BoostedTrees(Record):
    """Log-odds that trees add up. A subclass says how many features they have."""

    FEATURES: ClassVar[int] = 0

    start: Finite
    """Log-odds before any tree."""
    trees: list[Tree]

    @model_validator(mode="after")
    def _check_features(self) -> BoostedTrees:
        for place, tree in enumerate(self.trees):
            if max(tree.feature) >= self.FEATURES:
                raise ValueError(f"tree {place}: there is no feature {max(tree.feature)}")
        return self

    def probability(self, table: Table) -> NDArray[np.float64]:
        """Return the probability of each row of a table without NaN, in [0, 1]."""
        odds = self.start + sum((tree.values(table) for tree in self.trees), start=np.zeros(len(table)))
        return np.asarray(1 / (1 + np.exp(-odds)), dtype=np.float64)


TreesT = TypeVar("TreesT", bound=BoostedTrees)


def fit_trees(kind: type[TreesT], table: Table, labels: NDArray[np.bool_], settings: Mapping[str, Any]) -> TreesT:
    """Fit trees on labels of both classes, one a row of the table, with scikit-learn's settings."""
    from sklearn.ensemble import GradientBoostingClassifier  # only who trains needs it

    model = GradientBoostingClassifier(**settings).fit(table, labels)
    share = float(labels.mean())
    trees = [_tree(estimator.tree_, model.learning_rate) for estimator in model.estimators_[:, 0]]
    return kind(start=float(np.log(share / (1 - share))), trees=trees)


def _tree(fitted: Any, rate: float) -> Tree:
    """Return one of scikit-learn's trees (``sklearn.tree``'s ``tree_``) as plain values."""
    inner = fitted.children_left >= 0
    return Tree(
        feature=np.where(inner, fitted.feature, -1).tolist(),
        threshold=np.where(inner, fitted.threshold, 0.0).tolist(),
        left=fitted.children_left.tolist(),
        right=fitted.children_right.tolist(),
        value=(rate * fitted.value[:, 0, 0]).tolist(),
    )
