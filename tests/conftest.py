"""Makes `support`, what several test folders share, importable from all of them."""

import pytest

pytest.register_assert_rewrite("support")
