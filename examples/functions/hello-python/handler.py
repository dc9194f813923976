import os

GREETING = os.environ.get("GREETING", "Hi")


def handle(event):
    name = event.get("name", "world")
    return {"message": f"{GREETING}, {name}!"}
