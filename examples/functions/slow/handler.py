import asyncio

# What an answer needs after the work is done.
SPARE_SECONDS = 0.25


async def handle(event, context):
    seconds = event.get("seconds", 0)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds >= 0:
        return {"statusCode": 400, "body": {"error": "seconds must be a number from 0 upwards"}}
    # Seconds until the deadline: timeout_seconds of sless.toml, less what has passed already.
    if seconds > context.remaining - SPARE_SECONDS:
        return {
            "statusCode": 503,
            "headers": {"retry-after": "60"},
            "body": {"error": f"{seconds} s do not fit into the time of this call"},
        }
    done = 0.0
    while done < seconds:
        step = min(0.5, seconds - done)
        await asyncio.sleep(step)
        done += step
        print(f"{done:g} of {seconds:g} s")
    return {"slept": seconds}
