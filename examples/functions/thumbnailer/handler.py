"""Makes thumbnails: the image is the request's body, its width the query's `width`."""

import io
import os

from PIL import Image, ImageOps, UnidentifiedImageError

DEFAULT_WIDTH = 128
MAX_WIDTH = int(os.environ.get("MAX_WIDTH", "1024"))
# An image of a few kilobytes can claim to be gigabytes large; this many pixels are enough.
MAX_PIXELS = 40_000_000
TOO_LARGE = f"the image has more than {MAX_PIXELS} pixels"
# Transparency survives in these; everything else becomes a JPEG.
KEPT = {"PNG": "image/png", "WEBP": "image/webp"}


def refuse(status, error):
    return {
        "statusCode": status,
        "headers": {"content-type": "application/json"},
        "body": {"error": error},
    }


def wanted_width(query):
    text = query.get("width", str(DEFAULT_WIDTH))
    width = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= width <= MAX_WIDTH:
        raise ValueError(f"width must be a number from 1 to {MAX_WIDTH}, not {text[:40]!r}")
    return width


def handle(event, context):
    if not isinstance(event, bytes):
        return refuse(400, "send the image as the body, with its content-type")
    try:
        width = wanted_width(context.query)
        # Reads the header only; the pixels come with the first use.
        image = Image.open(io.BytesIO(event))
    except ValueError as error:
        return refuse(400, str(error))
    except UnidentifiedImageError:
        return refuse(400, "the body is not an image of a known format")
    except Image.DecompressionBombError:
        return refuse(413, TOO_LARGE)
    if image.width * image.height > MAX_PIXELS:
        return refuse(413, TOO_LARGE)
    kind = image.format if image.format in KEPT else "JPEG"
    try:
        # Cameras turn the picture by a note in it, which the thumbnail will not carry.
        image = ImageOps.exif_transpose(image)
        image.thumbnail((width, width * 8))
    except (OSError, SyntaxError, ValueError):
        return refuse(400, "the image is damaged")
    if kind == "JPEG" and image.mode != "RGB":
        image = image.convert("RGB")
    result = io.BytesIO()
    image.save(result, kind)
    return {
        "statusCode": 200,
        "headers": {"content-type": KEPT.get(kind, "image/jpeg")},
        "body": result.getvalue(),
    }
