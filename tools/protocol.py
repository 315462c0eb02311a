"""Write the messages of the node's protocols from their `.proto` files: `make protocol`.

python -m tools.protocol [FOLDER]      in place of src: for the test that compares
"""

from __future__ import annotations

import sys
from pathlib import Path

from grpc_tools import protoc

SOURCE = Path(__file__).parents[1] / "src"
PROTOCOL = Path("fairway/agent/protocol")


def write(folder: Path) -> list[Path]:
    """The files that were written, below `folder`."""
    names = sorted(path.name for path in (SOURCE / PROTOCOL).glob("*.proto"))
    paths = [str(PROTOCOL / name) for name in names]
    status = protoc.main(["protoc", f"-I{SOURCE}", f"--python_out={folder}", f"--pyi_out={folder}", *paths])
    if status != 0:
        raise SystemExit(f"protoc ended with status {status}")
    return sorted((folder / PROTOCOL).glob("*_pb2.py*"))


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE
    for path in write(target):
        print(path.relative_to(target))
