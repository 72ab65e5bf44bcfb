import pytest

pytest.register_assert_rewrite("threadline.testing.contract")  # a failed claim shows its values
