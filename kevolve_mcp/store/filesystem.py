"""Which file system a path lies on, and whether SQLite can be trusted there.

SQLite's write-ahead log shares memory between processes and relies on POSIX locks; both fail across
machines (https://sqlite.org/wal.html, https://sqlite.org/howtocorrupt.html section 2).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from kevolve_mcp.errors import StoreError

_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|smbfs|ncpfs|afs|9p|ceph|lustre|gpfs|beegfs\w*|pvfs2|orangefs|ocfs2|gfs2|"
    r"davfs|coda"
    r"|fuse\.(sshfs|ceph|glusterfs|s3fs|goofys|rclone|gcsfuse|davfs2?|smbnetfs|curlftpfs|juicefs|"
    r"mountpoint-s3|blobfuse2?|nfs)"
)


def refuse_network(path: Path, mounts: str | None = None) -> None:
    """Raise StoreError when `path` (it need not exist) lies on a network file system.

    mounts: the text of /proc/mounts; read from there by default, and without it nothing is refused.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return
    kind, where = mount_of(path, mounts)
    if _NETWORK.fullmatch(kind):
        raise StoreError(
            f"{path} lies on a network file system ({kind} at {where}), where SQLite loses or "
            "corrupts data.",
            "Set KEVOLVE_HOME to a folder on a local disk, or KEVOLVE_DATABASE to a PostgreSQL "
            "URL.",
        )


def mount_of(path: Path, mounts: str) -> tuple[str, str]:
    """File system type and mount point of `path`; ("", "") when `mounts` names none. Later mounts
    cover earlier ones."""
    real = os.path.realpath(path)
    mount = ("", "")
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), fields[1])
        inside = point == "/" or real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(mount[1]):
            mount = (fields[2], point)
    return mount
