"""As much of Prometheus' language as dashboard and alerts speak, over two scrapes of an export.

It is read by a parser of the whole language; what a query means is worked out here, between the
older scrape and the newer one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import add, eq, gt, itemgetter, lt, mul, sub, truediv
from typing import Any

import promql_parser as ql
from prometheus_client.parser import text_string_to_metric_families

#: Samples of one instant: labels (with the name as ``__name__``), and values.
Labels = frozenset[tuple[str, str]]
Vector = Mapping[Labels, float]

_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": truediv,
}
#: Of a comparison with a number only the samples are left for which it is true.
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {">": gt, "<": lt, "==": eq}
_AGGREGATES: dict[str, Callable[[Iterable[float]], float]] = {"sum": sum, "max": max, "min": min}


def scraped(text: str) -> Vector:
    """Read what an exporter says."""
    found = [one for family in text_string_to_metric_families(text) for one in family.samples]
    return {frozenset({("__name__", one.name), *one.labels.items()}): one.value for one in found}


@dataclass(frozen=True)
class Scrapes:
    """What was exported at two instants."""

    older: Vector
    newer: Vector
    seconds: float
    """How far they are apart."""

    def asked(self, query: str) -> Vector:
        """Return what a query answers at the newer instant.

        Raises
        ------
        LookupError
            When it names a metric or a label that is not exported.
        """
        found = self._value(ql.parse(query))
        assert isinstance(found, Mapping), query
        return found

    def _value(self, node: Any) -> Vector | float:
        match node:
            case ql.NumberLiteral():
                return float(node.val)
            case ql.ParenExpr():
                return self._value(node.expr)
            case ql.VectorSelector():
                return self._selected(self.newer, node)
            case ql.AggregateExpr():
                return self._aggregated(node)
            case ql.BinaryExpr():
                return self._combined(node)
            case ql.Call():
                return self._called(node.func.name, node.args)
        raise NotImplementedError(type(node).__name__)

    def _combined(self, node: Any) -> Vector | float:
        left, right = self._value(node.lhs), self._value(node.rhs)
        if str(node.op) != "and":
            return _combined(str(node.op), left, right)
        assert isinstance(left, Mapping)
        assert isinstance(right, Mapping)
        by = node.modifier.matching.labels
        there = {_labelled(labels, by) for labels in right}
        return {labels: value for labels, value in left.items() if _labelled(labels, by) in there}

    def _selected(self, scrape: Vector, node: Any) -> Vector:
        named = {labels: v for labels, v in scrape.items() if ("__name__", node.name) in labels}
        if not named:
            raise LookupError(f"no metric {node.name} is exported")
        known = {name for labels in named for name, _ in labels}
        for matcher in node.matchers.matchers:
            if matcher.name not in known:
                raise LookupError(f"{node.name} has no label {matcher.name}")
            named = {labels: v for labels, v in named.items() if _matches(matcher, dict(labels))}
        return named

    def _called(self, name: str, args: Sequence[Any]) -> Vector:
        if name in ("rate", "increase"):
            selector = args[0].vector_selector
            newer, older = (self._selected(at, selector) for at in (self.newer, self.older))
            per = self.seconds if name == "rate" else 1.0
            grown = {labels: value - older.get(labels, 0.0) for labels, value in newer.items()}
            assert all(value >= 0 for value in grown.values()), selector.name
            return {_nameless(labels): value / per for labels, value in grown.items()}
        if name == "histogram_quantile":
            part, buckets = self._value(args[0]), self._value(args[1])
            assert isinstance(part, float)
            assert isinstance(buckets, Mapping)
            return _quantiles(part, buckets)
        raise NotImplementedError(name)

    def _aggregated(self, node: Any) -> Vector:
        over = self._value(node.expr)
        assert isinstance(over, Mapping)
        if str(node.op) == "topk":
            most = int(node.param.val)
            return dict(sorted(over.items(), key=itemgetter(1), reverse=True)[:most])
        by = list(node.modifier.labels)
        known = {name for labels in over for name, _ in labels}
        if over and not set(by) <= known:
            raise LookupError(f"{node}: there is no label {', '.join(set(by) - known)}")
        groups: dict[Labels, list[float]] = {}
        for labels, value in over.items():
            key = frozenset((name, dict(labels).get(name, "")) for name in by)
            groups.setdefault(key, []).append(value)
        return {key: _AGGREGATES[str(node.op)](values) for key, values in groups.items()}


def _labelled(labels: Labels, names: Sequence[str]) -> tuple[str | None, ...]:
    return tuple(dict(labels).get(name) for name in names)


def _matches(matcher: Any, labels: Mapping[str, str]) -> bool:
    value = labels.get(matcher.name, "")
    if matcher.op == ql.MatchOp.Equal:
        return bool(value == matcher.value)
    if matcher.op == ql.MatchOp.Re:
        return re.fullmatch(matcher.value, value) is not None
    raise NotImplementedError(str(matcher.op))


def _nameless(labels: Labels) -> Labels:
    return frozenset((name, value) for name, value in labels if name != "__name__")


def _combined(operation: str, left: Vector | float, right: Vector | float) -> Vector | float:
    if operation in _COMPARISONS:
        assert isinstance(left, Mapping)
        assert isinstance(right, float)
        holds = _COMPARISONS[operation]
        return {labels: value for labels, value in left.items() if holds(value, right)}
    work = _OPERATIONS[operation]
    if isinstance(left, float) and isinstance(right, float):
        return work(left, right)
    if isinstance(left, float):
        assert isinstance(right, Mapping)
        return {_nameless(labels): work(left, value) for labels, value in right.items()}
    if isinstance(right, float):
        return {_nameless(labels): work(value, right) for labels, value in left.items()}
    both = left.keys() & right.keys()
    return {labels: work(left[labels], right[labels]) for labels in both if right[labels]}


def _quantiles(part: float, buckets: Vector) -> Vector:
    """Return, of each histogram, the upper end of the bucket in which a part of all is."""
    found: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in buckets.items():
        others = frozenset((name, value) for name, value in labels if name != "le")
        found.setdefault(others, []).append((float(dict(labels)["le"]), count))
    answers = {}
    for others, ends in found.items():
        ordered = sorted(ends)
        total = ordered[-1][1]
        if total:
            answers[others] = next(end for end, count in ordered if count >= part * total)
    return answers
