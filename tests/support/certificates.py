"""Certificates for tests, made by the machine's openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

OPENSSL = shutil.which("openssl")


class MadeCertificate(NamedTuple):
    certificate: Path
    key: Path


def make_certificate(folder: Path, name: str = "localhost") -> MadeCertificate:
    """Self-signed, for a host name and the loopback address."""
    folder.mkdir(parents=True, exist_ok=True)
    made = MadeCertificate(folder / "tls.crt", folder / "tls.key")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1"]
    command += ["-keyout", str(made.key), "-out", str(made.certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return made
