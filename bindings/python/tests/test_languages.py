"""C, Python and Rust talk through one port, whichever of them reads.

WEIR_C_PREFIX is where `bindings/c/install` has laid weir for C down; without it, a C compiler or the
command `weir` the tests are skipped.
"""

import os
import shutil
import subprocess
import sys

import pytest
import weir
from test_ends import LONG, command

PREFIX = os.environ.get("WEIR_C_PREFIX")
COMMAND = command()

pytestmark = pytest.mark.skipif(
    not (PREFIX and COMMAND and shutil.which("cc")),
    reason="SKIPPED: WEIR_C_PREFIX, the command weir or a C compiler is not here",
)

WRITES = """
#include <weir.h>
int main(int count, char **words) {
    weir_port_writer *writer;
    weir_status status = weir_port_writer_connect(words[1], NULL, WEIR_FOREVER, &writer);
    if (count != 2 || status != WEIR_OK) return 1;
    status = weir_port_send(writer, "from C", 6, WEIR_FOREVER);
    weir_port_writer_free(writer);
    return status != WEIR_OK;
}
"""

READS = """
#include <stdio.h>
#include <weir.h>
int main(int count, char **words) {
    weir_port *port;
    int ended = 0;
    if (count != 2 || weir_port_create(words[1], NULL, &port) != WEIR_OK) return 1;
    while (ended < 3) {
        char text[64];
        weir_received received;
        if (weir_port_receive(port, text, sizeof text, WEIR_FOREVER, &received) != WEIR_OK) return 1;
        if (received.event == WEIR_WRITER_ENDED) ended++;
        else printf("%.*s\\n", (int)received.count, text);
    }
    weir_port_free(port);
    return 0;
}
"""

PYTHON = """
import sys, weir
with weir.PortWriter(sys.argv[1], connect_timeout=60) as writer:
    writer.send(b"from Python")
"""


def compiled(directory, name, source):
    (directory / f"{name}.c").write_text(source)
    program = directory / name
    line = ["cc", "-std=c99", directory / f"{name}.c", f"-I{PREFIX}/include", f"-L{PREFIX}/lib"]
    subprocess.run([*line, "-lweir", f"-Wl,-rpath,{PREFIX}/lib", "-o", program], check=True)
    return program


def write_from_all(directory, name):
    """One message from each of the three languages."""
    for line in (
        [compiled(directory, "writes", WRITES), name],
        [sys.executable, "-c", PYTHON, name],
        [COMMAND, "port", "write", name, "--wait", "60s", "--message", "from Rust"],
    ):
        subprocess.run(line, check=True, timeout=LONG)


ALL = {"from C", "from Python", "from Rust"}


def test_python_reads_what_all_three_write(tmp_path):
    with weir.Port(tmp_path / "port") as port:
        write_from_all(tmp_path, tmp_path / "port")
        got = [port.receive(timeout=LONG) for _ in range(6)]
    assert {message.data.decode() for message in got if message.ending is None} == ALL
    assert [message.ending for message in got if message.ending] == ["closed"] * 3


def test_c_reads_what_all_three_write(tmp_path):
    reader = compiled(tmp_path, "reads", READS)
    name = tmp_path / "port"
    with subprocess.Popen([reader, name], stdout=subprocess.PIPE, text=True) as reading:
        write_from_all(tmp_path, name)
        out, _ = reading.communicate(timeout=LONG)
    assert (set(out.split("\n")), reading.returncode) == (ALL | {""}, 0)


def test_rust_reads_what_all_three_write(tmp_path):
    name = tmp_path / "port"
    line = [COMMAND, "port", "read", name, "--until-closed=3"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as reading:
        write_from_all(tmp_path, name)
        out, _ = reading.communicate(timeout=LONG)
    assert (set(out.split("\n")), reading.returncode) == (ALL | {""}, 0)
