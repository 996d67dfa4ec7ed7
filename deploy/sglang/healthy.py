"""Exit 0 when the server on this machine's port answers and lets us in: `python healthy.py PORT`. Health checks of containers run it."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request


def healthy(port: int, key: str) -> bool:
    """True when `/health` answers 200 within five seconds."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/health", headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


if __name__ == "__main__":
    sys.exit(0 if healthy(int(sys.argv[1]), os.environ.get("SGLANG_API_KEY", "")) else 1)
