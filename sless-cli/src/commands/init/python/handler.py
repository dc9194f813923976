"""The function NAME: called with the JSON body of each request, and answers with JSON."""

import os


def handle(event, context):
    name = event.get("name", "world")
    print(f"greeting {name}")
    return {"message": f"{os.environ.get('GREETING', 'Hello')}, {name}!"}
