"""What a type checker must understand of the front door. Checked by mypy, never run."""

from __future__ import annotations

from typing import assert_type

import featuregate as fg

assert_type(fg.__version__, str)
