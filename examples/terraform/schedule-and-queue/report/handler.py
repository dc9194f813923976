def handle(event):
    return {"report": "all is well"}
