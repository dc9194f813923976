"""Takes images from a queue: the thumbnail of each goes into a bucket, under the image's name."""

import io
import os

from minio import Minio

import handler

BUCKET = os.environ["BUCKET"]
FOLDER = os.environ["FOLDER"]
store = Minio(
    os.environ["S3_HOST"],
    access_key=os.environ["S3_ACCESS_KEY"],
    secret_key=os.environ["S3_SECRET_KEY"],
    region=os.environ["S3_REGION"],
    secure=False,
)


def handle(event, context):
    answer = handler.handle(event, context)
    # Anything but 2xx makes the message come again, and in the end a dead letter.
    if answer["statusCode"] != 200:
        return answer
    name = context.headers["image-name"]
    thumbnail = answer["body"]
    store.put_object(
        BUCKET,
        f"{FOLDER}/{name}",
        io.BytesIO(thumbnail),
        len(thumbnail),
        content_type=answer["headers"]["content-type"],
    )
    print(f"{name}: {len(event)} bytes became {len(thumbnail)}")
    return {"stored": name}
