#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Holds the picture of README against the measurements from which it was made.

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import speedup_picture  # noqa: E402 (the path first)


def main():
    made, drawn = speedup_picture.picture(), (ROOT / "docs/speedup.svg").read_text()
    if made != drawn:
        print("docs/speedup.svg is not what bench/speedup_picture.py prints")
        return 1
    values = [value for _, _, rows in speedup_picture.groups() for _, value in rows]
    missing = [value for value in values if f">{value:.2f} x<" not in drawn]
    print(f"{len(values)} figures, {len(missing)} missing")
    return 1 if missing or not values else 0


if __name__ == "__main__":
    sys.exit(main())
