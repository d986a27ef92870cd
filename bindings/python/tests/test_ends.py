"""Pipes, records, channels, ports and flags: what passes, what ends, what is refused."""

import asyncio
import multiprocessing as mp
import os
import pathlib
import selectors
import shutil
import signal
import subprocess
import threading

import pytest
import weir

LONG = 60
METHODS = ["fork", "spawn", "forkserver"]


def start(method, target, *args):
    process = mp.get_context(method).Process(target=target, args=args, daemon=True)
    process.start()
    return process


def write_and_close(writer):
    with writer:
        assert writer.write(b"hello, ") == 7
        writer.write(bytearray(b"world"))


@pytest.mark.parametrize("method", METHODS)
def test_a_stream_ends(method):
    writer, reader = weir.pipe()
    child = start(method, write_and_close, writer)
    writer.close()
    got = b""
    while part := reader.read(timeout=LONG):
        got += part
    assert got == b"hello, world"
    child.join(LONG)


def test_a_long_write_goes_through_a_small_pipe():
    writer, reader = weir.pipe(4096)
    writing = threading.Thread(target=lambda: (writer.write(b"x" * 100_000), writer.close()))
    writing.start()
    buffer, got = bytearray(10_000), 0
    while count := reader.readinto(buffer, timeout=LONG):
        got += count
    writing.join(LONG)
    assert got == 100_000
    with pytest.raises((BufferError, TypeError)):
        reader.readinto(b"constant")


def test_records_keep_their_lengths():
    writer, reader = weir.records()
    for length in (0, 1, 64, 5000):
        writer.send(b"r" * length)
    writer.close()
    assert [len(record) for record in reader] == [0, 1, 64, 5000]
    assert reader.receive() is None


def test_calls_end_in_time():
    writer, reader = weir.records(4096)
    with pytest.raises(weir.WouldBlock, match="it is empty"):
        reader.receive(timeout=0)
    with pytest.raises(weir.TimedOut):
        reader.receive(timeout=0.01)
    with pytest.raises(weir.TimedOut):
        while True:
            writer.send(b"x" * 1000, timeout=0.01)
    with pytest.raises(weir.Invalid):
        writer.send(b"x" * 100_000)


def test_a_loan_is_valid_as_long_as_the_with():
    writer, reader = weir.records()
    writer.send(b"first" * 1000)
    writer.send(b"second")
    with reader.lend() as view:
        assert view.readonly and bytes(view[:5]) == b"first"
    with pytest.raises(ValueError):
        view[0]
    assert reader.receive() == b"second"
    writer.close()
    with reader.lend() as view:
        assert view is None


def test_a_loan_with_views_does_not_end():
    writer, reader = weir.records()
    writer.send(b"lent")
    writer.send(b"next")
    with pytest.raises(BufferError):
        with reader.lend() as view:
            part = memoryview(view)
    assert bytes(part) == b"lent"
    for call in (reader.receive, reader.close, lambda: reader.lend().__enter__()):
        with pytest.raises(BufferError, match="views of the record"):
            call()
    del writer, reader
    assert bytes(part) == b"lent"


def test_a_loan_goes_on_once_its_views_are_gone():
    writer, reader = weir.records()
    writer.send(b"lent")
    writer.send(b"next")
    lent = reader.lend()
    view = lent.__enter__()
    part = view[1:]
    with pytest.raises(BufferError):
        lent.__exit__()
    part.release()
    view.release()
    assert reader.receive() == b"next"


def test_an_end_that_was_used_is_not_handed_on():
    import pickle

    writer, reader = weir.records()
    writer.send(b"x")
    with pytest.raises(weir.Invalid, match="it was used here"):
        pickle.dumps(writer)
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        reader.receive()
    with pytest.raises(weir.Closed):
        for _ in range(10):
            writer.send(b"too late")


def test_a_forked_child_is_told_that_the_end_is_its_parents():
    writer, reader = weir.records()
    writer.send(b"x")
    def child():
        with pytest.raises(weir.Forked):
            writer.send(b"y")
    process = mp.get_context("fork").Process(target=child)
    process.start()
    process.join(LONG)
    assert process.exitcode == 0
    assert reader.receive() == b"x"


def serve(side):
    while (request := side.reader.receive(timeout=LONG)) is not None:
        if request == b"die":
            os.kill(os.getpid(), signal.SIGKILL)
        side.writer.send(request[::-1])


@pytest.mark.parametrize("method", METHODS)
def test_each_request_gets_its_reply_and_a_death_is_heard(method):
    client, server = weir.duplex()
    child = start(method, serve, server)
    server.close()
    assert client.request(b"stressed", timeout=LONG) == b"desserts"
    with pytest.raises(weir.Closed):
        client.request(b"die", timeout=LONG)
    child.join(LONG)


def send_messages(name, count):
    with weir.PortWriter(name, connect_timeout=LONG) as writer:
        for number in range(count):
            writer.send(b"%d" % number)


def test_many_writers_and_one_reader(tmp_path):
    name = tmp_path / "log"
    with weir.Port(name) as port:
        children = [start("fork", send_messages, name, 100) for _ in range(5)]
        ended, got = 0, {}
        while ended < 5:
            message = port.receive(timeout=LONG)
            if message.ending:
                assert message.ending == "closed"
                ended += 1
            else:
                got.setdefault(message.pid, []).append(int(message.data))
        assert got == {child.pid: list(range(100)) for child in children}
        for child in children:
            child.join(LONG)
        with pytest.raises(weir.Taken, match=str(os.getpid())):
            weir.Port(name)
    with pytest.raises(weir.NoReader):
        weir.PortWriter(name)


def test_bad_names_are_refused():
    for name in ("nul\0in", "x" * 200, ""):
        with pytest.raises((ValueError, weir.Error)):
            weir.Port(name)
        with pytest.raises((ValueError, weir.Error)):
            weir.PortWriter(name)


def test_a_message_longer_than_the_port_takes_is_refused(tmp_path):
    with weir.Port(tmp_path / "port", most_message_bytes=1 << 20) as port:
        with weir.PortWriter(tmp_path / "port") as writer:
            sending = threading.Thread(target=writer.send, args=(b"y" * 700_000,))
            sending.start()
            assert len(port.receive(timeout=LONG).data) == 700_000
            sending.join(LONG)
            with pytest.raises(weir.Invalid):
                writer.send(b"y" * (2 << 20))


def loops():
    found = [asyncio.new_event_loop]
    try:
        import uvloop

        found.append(uvloop.new_event_loop)
    except ImportError:
        print("SKIPPED: uvloop is not here")
    return found


@pytest.mark.parametrize("new_loop", loops())
def test_asyncio_waits_for_messages_and_records(new_loop, tmp_path):
    async def run():
        got = []
        with weir.Port(tmp_path / "port") as port:
            child = start("fork", send_messages, tmp_path / "port", 10)
            async for message in port:
                if message.ending:
                    break
                got.append(int(message.data))
            child.join(LONG)
        writer, reader = weir.records()
        async def send():
            for number in range(3):
                await asyncio.sleep(0)
                writer.send(b"%d" % number)
            writer.close()
        task = asyncio.ensure_future(send())
        records = [record async for record in reader]
        await task
        return got, records
    loop = new_loop()
    try:
        got, records = loop.run_until_complete(asyncio.wait_for(run(), LONG))
    finally:
        loop.close()
    assert got == list(range(10)) and records == [b"0", b"1", b"2"]


def test_several_ends_are_waited_for_by_selectors():
    writers, readers = zip(*(weir.records() for _ in range(3)))
    with selectors.DefaultSelector() as selector:
        for number, reader in enumerate(readers):
            selector.register(reader, selectors.EVENT_READ, number)
            with pytest.raises(weir.WouldBlock):
                reader.receive(timeout=0)
        writers[1].send(b"here")
        assert [key.data for key, _ in selector.select(LONG)] == [1]


def test_a_wait_names_the_ends_that_are_ready_until_they_are_empty():
    (one, first), (_other, second) = weir.records(), weir.records()
    with weir.Wait() as wait:
        wait.add(first)
        wait.add(second)
        for end in (first, second):
            with pytest.raises(weir.WouldBlock):
                end.receive(timeout=0)
        assert wait.wait(0) == []
        one.send(b"here")
        assert wait.wait(LONG) == [first]
        assert first.receive(timeout=0) == b"here"
        with pytest.raises(weir.WouldBlock):
            first.receive(timeout=0)
        assert wait.wait(0) == []
        one.close()
        assert wait.wait(LONG) == [first]
        wait.remove(first)
        assert wait.wait(0) == []


def set_flag(flags):
    flags.set(0b10)


@pytest.mark.parametrize("method", METHODS)
def test_flags_are_shared(method):
    flags = weir.Flags()
    child = start(method, set_flag, flags)
    assert flags.wait(0b110, clear=True, timeout=LONG) == 0b10
    assert flags.read() == 0
    child.join(LONG)
    with pytest.raises(weir.TimedOut):
        flags.wait(1, timeout=0.01)
    with pytest.raises(weir.Invalid, match="mask is empty"):
        flags.wait(0)


def test_a_signal_is_heard_by_one_who_waits():
    class Heard(Exception):
        pass
    def handler(*_):
        raise Heard
    before = signal.signal(signal.SIGALRM, handler)
    _writer, reader = weir.records()
    try:
        for wait in (lambda: reader.receive(timeout=LONG), lambda: weir.Flags().wait(1, timeout=LONG)):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Heard):
                wait()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def command():
    """The command `weir`, which is Rust: in PATH, or built beside this."""
    built = pathlib.Path(__file__).parent.parent.parent.parent / "target"
    there = [shutil.which("weir"), built / "release" / "weir", built / "debug" / "weir"]
    return next((str(path) for path in there if path and os.path.exists(path)), None)


@pytest.mark.skipif(command() is None, reason="SKIPPED: the command weir is not here")
def test_python_and_rust_talk_through_a_port(tmp_path):
    with weir.Port(tmp_path / "here") as port:
        subprocess.run(
            [command(), "port", "write", tmp_path / "here", "--message", "from Rust"],
            check=True,
            timeout=LONG,
        )
        assert port.receive(timeout=LONG).data == b"from Rust"
        assert port.receive(timeout=LONG).ending == "closed"
    reading = [command(), "port", "read", tmp_path / "there", "--until-closed"]
    with subprocess.Popen(reading, stdout=subprocess.PIPE) as reader:
        with weir.PortWriter(tmp_path / "there", connect_timeout=LONG) as writer:
            writer.send(b"from Python")
        assert reader.communicate(timeout=LONG)[0] == b"from Python\n"
        assert reader.returncode == 0
