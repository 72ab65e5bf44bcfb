"""The provider's conversations and types live with the tests of the formats."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "formats"))
