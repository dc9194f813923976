"""Summarizes the number columns of a CSV, one JSON line for every so many rows."""

import csv
import io
import json
import math
import os
import time

EVERY = int(os.environ.get("EVERY", "1000"))
MAX_PAUSE_MS = 1000


class Column:
    """What is known of one column so far. Cells that are no number count as text."""

    def __init__(self):
        self.count = 0
        self.sum = 0.0
        self.least = math.inf
        self.most = -math.inf
        self.text = 0

    def add(self, cell):
        try:
            number = float(cell)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            self.text += 1
            return
        self.count += 1
        self.sum += number
        self.least = min(self.least, number)
        self.most = max(self.most, number)

    def summary(self):
        if not self.count:
            return {"text": self.text}
        return {
            "count": self.count,
            "sum": round(self.sum, 6),
            "mean": round(self.sum / self.count, 6),
            "min": self.least,
            "max": self.most,
            "text": self.text,
        }


def option(query, name, default, least, most):
    text = query.get(name, str(default))
    value = int(text) if text.isascii() and text.isdigit() else -1
    if not least <= value <= most:
        raise ValueError(f"{name} must be a number from {least} to {most}, not {text[:40]!r}")
    return value


def line(kind, rows, columns):
    value = {kind: rows, "columns": {name: column.summary() for name, column in columns.items()}}
    return json.dumps(value) + "\n"


def summarize(rows, names, every, pause):
    columns = {name: Column() for name in names}
    count = 0
    for row in rows:
        count += 1
        for name, cell in zip(names, row):
            columns[name].add(cell)
        if count % every == 0:
            yield line("rows_so_far", count, columns)
            time.sleep(pause)
    yield line("rows", count, columns)


def handle(event, context):
    if not isinstance(event, str):
        return {"statusCode": 400, "body": {"error": "send the CSV as text/csv"}}
    try:
        every = option(context.query, "every", EVERY, 1, 1_000_000)
        pause = option(context.query, "pause_ms", 0, 0, MAX_PAUSE_MS) / 1000
    except ValueError as error:
        return {"statusCode": 400, "body": {"error": str(error)}}
    rows = csv.reader(io.StringIO(event, newline=""))
    names = next(rows, None)
    if not names or len(set(names)) != len(names):
        return {"statusCode": 400, "body": {"error": "the first row must name each column once"}}
    return {
        "statusCode": 200,
        "headers": {"content-type": "application/x-ndjson"},
        "body": summarize(rows, names, every, pause),
    }
