"""The page docs/python.md: its programs are the examples, and print what it says."""

import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
PAGE = EXAMPLES.parent.parent.parent / "docs" / "python.md"
BLOCK = re.compile(r"<!-- (\w+\.py) -->\n```python\n(.*?)```\n\n```text\n(.*?)```", re.S)


def programs():
    return BLOCK.findall(PAGE.read_text())


def test_each_example_is_on_the_page():
    assert sorted(name for name, _, _ in programs()) == sorted(p.name for p in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name, text, output", programs(), ids=lambda value: value[:12])
def test_a_program_of_the_page_is_its_file_and_prints_what_it_says(name, text, output):
    assert (EXAMPLES / name).read_text() == text
    if "numpy" in text:
        pytest.importorskip("numpy", reason="SKIPPED: numpy is not here")
    ran = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=120
    )
    assert (ran.stdout, ran.returncode) == (output, 0), ran.stderr
