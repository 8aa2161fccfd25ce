"""The files of the page, read once. They lie beside this module; nothing of the page comes from elsewhere."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("page")

_MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""What is served; anything else in the folder (licences) is not."""


@dataclass(frozen=True)
class Asset:
    """One file as it is served."""

    body: bytes
    media_type: str
    etag: str


def read_assets(folder: Path = FOLDER) -> dict[str, Asset]:
    """Every file by its path in a URL; `index.html` is `/`."""
    found = {}
    for path in sorted(folder.rglob("*")):
        media_type = _MEDIA_TYPES.get(path.suffix)
        if media_type is None:
            continue
        body = path.read_bytes()
        name = path.relative_to(folder).as_posix()
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        found["/" if name == "index.html" else f"/{name}"] = Asset(body, media_type, etag)
    return found
