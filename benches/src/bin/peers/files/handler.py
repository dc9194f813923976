def handle(event, context=None):
    return event
