"""Fails as it is told to. What is not told to fail succeeds, to show that the next call works."""

import os
import time


class PaymentRefused(Exception):
    pass


def raises():
    raise ValueError("42 is not the answer")


def chain():
    try:
        {}["missing"]
    except KeyError as error:
        raise RuntimeError("the settings are incomplete") from error


def own_type():
    raise PaymentRefused("card 4242 has expired")


def answer():
    # No error for the platform: the function says so itself, and chooses the status.
    return {"statusCode": 422, "body": {"error": "units must not be negative"}}


def no_json():
    return {"cities": {"Oslo", "Rome"}}


def nan():
    return {"mean": float("nan")}


def bad_status():
    return {"statusCode": 99, "body": "what is 99?"}


def leave():
    print("leaving without an answer", flush=True)
    os._exit(3)


def hang():
    time.sleep(60)


def cut():
    yield "first half\n"
    # Long enough for the first half to be on its way.
    time.sleep(0.2)
    raise ConnectionError("the source of the second half is gone")


WAYS = {
    "raise": raises,
    "chain": chain,
    "own_type": own_type,
    "answer": answer,
    "set": no_json,
    "nan": nan,
    "bad_status": bad_status,
    "exit": leave,
    "hang": hang,
    "cut": cut,
}


def handle(event):
    how = event.get("how")
    if how is None:
        return {"ways": sorted(WAYS)}
    return WAYS[how]()
