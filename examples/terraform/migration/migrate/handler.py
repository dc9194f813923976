def handle(event):
    return {"version": event["to"]}
