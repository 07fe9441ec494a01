"""Decodes recorded images."""

import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from holdfast.errors import Mistake


def decode_images(rows: Iterable[bytes], count: int, shape: tuple[int, ...], where: Path) -> np.ndarray:
    """So many JPEG images of this shape, (N, *shape) uint8; their size is checked before they are decoded."""
    try:
        from PIL import Image
    except ImportError:
        raise Mistake("Pillow is not installed: pip install 'holdfast[datasets]'") from None

    height, width = shape[:2]
    images = np.empty((count, *shape), np.uint8)
    for number, row in enumerate(rows):
        try:
            with Image.open(io.BytesIO(row), formats=["JPEG"]) as image:
                if image.size != (width, height):
                    raise Mistake(f"image {number} in {where} has size {image.size}, not {(width, height)}")
                decoded = np.asarray(image)
        except (OSError, ValueError, SyntaxError) as problem:
            raise Mistake(f"image {number} in {where} is damaged ({problem})") from problem
        if decoded.size != images[number].size:
            raise Mistake(f"image {number} in {where} has shape {decoded.shape}, not {shape}")
        images[number] = decoded.reshape(shape)
    return images
