import os


def handle(event):
    name = event.get("name", "world")
    return {"message": f"{os.environ['GREETING']}, {name}!"}
