"""Folders of documents for tests."""

from __future__ import annotations

from pathlib import Path

GUIDE = """# X1 programming guide

The X1 has sixteen lanes.

## Scratchpad

Each core has a scratchpad of 96 KiB. The bandwidth to it is 64 bytes per cycle; use prefetch before a loop.

## Zorble unit

The zorble unit computes a matrix multiplication of 8 by 8 tiles. Its bandwidth is limited by the scratchpad.
"""  # noqa: E501


def folder(root: Path, **files: str | bytes) -> Path:
    """A folder `manuals` with these files: guide_md="…" is guide.md."""
    place = root / "manuals"
    place.mkdir(exist_ok=True)
    for name, content in files.items():
        path = place / ".".join(name.rsplit("_", 1))
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return place


def pdf(*pages: str, encrypted: bool = False) -> bytes:
    """A PDF with one line of text a page. Needs pypdf."""
    import io

    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    font = DictionaryObject({NameObject("/Type"): NameObject("/Font"),
                             NameObject("/Subtype"): NameObject("/Type1"),
                             NameObject("/BaseFont"): NameObject("/Helvetica")})  # fmt: skip
    for text in pages:
        page = writer.add_blank_page(600, 800)
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
        fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    if encrypted:
        writer.encrypt("secret", algorithm="RC4-128")
    else:
        writer.add_outline_item(title="The matrix chapter", page_number=0)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()
