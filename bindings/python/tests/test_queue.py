"""weir.Queue: what it passes, to whom, and what happens when somebody dies."""

import concurrent.futures
import multiprocessing as mp
import os
import pickle
import queue as std_queue
import signal
import socket
import threading
import time

import pytest
import weir

try:
    import numpy
except ImportError:
    numpy = None

# Long enough for a machine that does other things; nothing waits for it in vain.
LONG = 60
METHODS = ["fork", "spawn", "forkserver"]


def echo(questions, answers):
    while (item := questions.get(timeout=LONG)) is not None:
        answers.put(item)


def put_numbers(queue, name, count):
    for number in range(count):
        queue.put((name, number))


def get_until_none(queue, results):
    got = []
    while (item := queue.get(timeout=LONG)) is not None:
        got.append(item)
    results.put(got)


def start(method, target, *args):
    process = mp.get_context(method).Process(target=target, args=args, daemon=True)
    process.start()
    return process


def join(process):
    process.join(LONG)
    assert process.exitcode == 0


@pytest.mark.parametrize("method", METHODS)
def test_objects_pass_both_ways(method):
    questions, answers = weir.Queue(), weir.Queue()
    child = start(method, echo, questions, answers)
    items = [1, "text", b"", b"bytes", bytearray(b"array"), {"key": [None, 2.5]}, b"x" * (3 << 20)]
    for item in items:
        questions.put(item)
        answer = answers.get(timeout=LONG)
        assert answer == item and type(answer) is type(item)
    questions.put(None)
    join(child)


class Named(str):
    pass


class Number(int):
    pass


class Mapping(dict):
    pass


@pytest.mark.parametrize(
    "item",
    [
        None, True, False, 0, -1, 127, 128, -128, -129, 2**63 - 1, -(2**63), 2**63, 10**30, 2.5,
        float("inf"), -0.0, "", "text", "\u00e9\u4e2d\U0001f600", "\ud800", "nul\0", "x" * 600,
        b"", b"bytes", b"x" * 3000, bytearray(b"array"), (), [], {}, (1,), [[]], [(), {}],
        {"step": 7, "loss": 0.25, "name": "a worker", "tags": [1, 2, 3], 5: {None: ()}},
        [1, [2, (3, {"four": [5.0]})]], list(range(1000)), {"big": 10**30}, ("x" * 1000, b"y" * 1000),
        Named("text"), Number(5), Mapping(a=1), [Named("inside")], {"in": Number(6)}, {1, 2},
        frozenset([3]), 1 + 2j, Ellipsis, range(5), ["\ud800"],
    ],
    ids=lambda item: repr(item)[:20],
)
def test_values_arrive_as_what_they_were(item):
    def types(value):
        inside = value.items() if isinstance(value, dict) else value
        deep = isinstance(value, (tuple, list, dict))
        return type(value), [types(each) for each in inside] if deep else None

    queue = weir.Queue()
    queue.put(item)
    got = queue.get_nowait()
    assert got == item and types(got) == types(item) and repr(got) == repr(item)
    assert queue.empty()


def test_what_is_in_a_value_twice_stays_one():
    queue = weir.Queue()
    one, pair = [1], ([2],)
    for item in ([one, one], {"a": one, "b": (one,)}, [pair, pair], (pair, {"c": pair})):
        queue.put(item)
    first, second, third, fourth = [queue.get() for _ in range(4)]
    assert first[0] is first[1] and second["a"] is second["b"][0]
    assert third[0] is third[1] and fourth[0] is fourth[1]["c"]
    circle = []
    circle.append(circle)
    queue.put(circle)
    got = queue.get()
    assert got[0] is got
    deep = []
    for _ in range(100):
        deep = [deep]
    queue.put(deep)
    assert queue.get() == deep


class PutsWhilePickled:
    """An object that puts another one while it is pickled."""

    def __init__(self, queue):
        self.queue = queue

    def __reduce__(self):
        self.queue.put({1, 2})
        return set, ([3],)


def test_an_object_may_put_while_it_is_pickled():
    queue = weir.Queue()
    queue.put([PutsWhilePickled(queue)])
    assert [queue.get(), queue.get()] == [{1, 2}, [{3}]]


def test_a_reducer_that_is_registered_later_is_used():
    class Odd:
        pass

    queue = weir.Queue()
    with pytest.raises((pickle.PicklingError, AttributeError)):
        queue.put(Odd())
    mp.reduction.register(Odd, lambda odd: (int, ("7",)))
    queue.put([Odd()])
    assert queue.get() == [7]


@pytest.mark.skipif(numpy is None, reason="SKIPPED: numpy is not here")
def test_arrays_are_not_pickled_and_may_be_written():
    queue = weir.Queue()
    arrays = {"a": numpy.arange(1 << 20), "b": numpy.zeros((3, 5), order="F"), "c": numpy.arange(9)[::2]}
    arrays["a"].flags.writeable = True
    queue.put(arrays)
    got = queue.get()
    for name, array in arrays.items():
        assert (got[name] == array).all()
        assert got[name].dtype == array.dtype and got[name].shape == array.shape
        got[name][...] = 0
    for array in (
        numpy.arange(5),
        numpy.zeros(0),
        numpy.ones((2, 3, 4), ">f4"),
        numpy.array(7.5),
        numpy.array([1 + 2j]),
        numpy.array(["text", None]),
        numpy.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
        numpy.arange(12).reshape(3, 4).T,
    ):
        queue.put(array)
        copy = queue.get()
        assert copy.dtype == array.dtype and copy.shape == array.shape
        assert copy.tolist() == array.tolist() and copy.flags.writeable
    constant = numpy.frombuffer(b"constant", numpy.uint8)
    queue.put(constant)
    assert not queue.get().flags.writeable


def test_it_grows_and_keeps_the_order():
    queue = weir.Queue(size_bytes=4096)
    for number in range(20_000):
        queue.put_nowait(number)
    assert queue.qsize() == 20_000 and not queue.full()
    assert [queue.get_nowait() for _ in range(20_000)] == list(range(20_000))
    assert queue.empty()
    queue.put(b"x" * (16 << 20))
    assert len(queue.get()) == 16 << 20


def test_a_bound_is_kept():
    queue = weir.Queue(maxsize=2)
    queue.put(1)
    queue.put(2)
    assert queue.full() and queue.qsize() == 2
    with pytest.raises(std_queue.Full):
        queue.put_nowait(3)
    with pytest.raises(std_queue.Full):
        queue.put(3, timeout=0.01)
    waiting = threading.Thread(target=queue.put, args=(3,), daemon=True)
    waiting.start()
    assert [queue.get(timeout=LONG) for _ in range(3)] == [1, 2, 3]
    waiting.join(LONG)
    with pytest.raises(std_queue.Empty):
        queue.get_nowait()
    with pytest.raises(std_queue.Empty):
        queue.get(timeout=0.01)


def test_many_put_and_many_get():
    queue, results = weir.Queue(maxsize=50), weir.Queue()
    putters = [start("fork", put_numbers, queue, name, 2_000) for name in range(4)]
    getters = [start("fork", get_until_none, queue, results) for _ in range(3)]
    for process in putters:
        join(process)
    for _ in getters:
        queue.put(None)
    lists = [results.get(timeout=LONG) for _ in getters]
    for process in getters:
        join(process)
    assert sorted(sum(lists, [])) == [(n, i) for n in range(4) for i in range(2_000)]
    for got in lists:
        for name in range(4):
            numbers = [number for putter, number in got if putter == name]
            assert numbers == sorted(numbers)


def test_threads_of_one_process_share_it():
    queue, got = weir.Queue(maxsize=3), []
    def take():
        while (item := queue.get(timeout=LONG)) is not None:
            got.append(item)
    threads = [threading.Thread(target=take, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(1_000):
        queue.put(number, timeout=LONG)
    for _ in threads:
        queue.put(None)
    for thread in threads:
        thread.join(LONG)
    assert sorted(got) == list(range(1_000))


_shared = None


def keep(queue):
    global _shared
    _shared = queue


def double(number):
    _shared.put(2 * number)


@pytest.mark.parametrize("method", METHODS)
def test_it_is_an_argument_of_a_pools_beginning(method):
    queue = weir.Queue()
    context = mp.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(
        2, mp_context=context, initializer=keep, initargs=(queue,)
    ) as pool:
        list(pool.map(double, range(5), timeout=LONG))
    assert sorted(queue.get(timeout=LONG) for _ in range(5)) == [0, 2, 4, 6, 8]


def answer_through(carrier):
    carrier.get(timeout=LONG).put("arrived")


def test_a_queue_goes_through_a_queue():
    carrier, cargo = weir.Queue(), weir.Queue()
    child = start("fork", answer_through, carrier)
    carrier.put(cargo)
    assert cargo.get(timeout=LONG) == "arrived"
    join(child)


def test_a_socket_goes_through_a_queue():
    queue = weir.Queue()
    one, two = socket.socketpair()
    with one, two:
        queue.put(one)
        with queue.get() as copy:
            copy.sendall(b"hello")
            assert two.recv(5) == b"hello"


# What hangs with multiprocessing.Queue.


def wait_for_ever(queue, ready):
    ready.put(os.getpid())
    queue.get()


def test_a_child_that_is_killed_in_get_holds_up_nobody():
    queue, ready = weir.Queue(), weir.Queue()
    child = start("fork", wait_for_ever, queue, ready)
    ready.get(timeout=LONG)
    os.kill(child.pid, signal.SIGKILL)
    child.join(LONG)
    queue.put("still there")
    assert queue.get(timeout=LONG) == "still there"


@pytest.mark.parametrize("size, rounds", [(5000, 20), (5 << 20, 6)])
@pytest.mark.parametrize("side", ["put", "get"])
def test_processes_that_are_killed_at_any_moment_leave_a_sound_queue(side, size, rounds):
    queue = weir.Queue(maxsize=4)
    def busy():
        while True:
            if side == "put":
                queue.put(b"y" * size)
            else:
                queue.get()
    def drain():
        # A killed putter is told, and the queue goes on.
        while True:
            try:
                if side == "get":
                    queue.put(b"z" * size, timeout=LONG)
                else:
                    assert queue.get(timeout=LONG) == b"y" * size
                return
            except weir.PeerDied:
                pass
    for round in range(rounds):
        child = mp.get_context("fork").Process(target=busy, daemon=True)
        child.start()
        for _ in range(2 * rounds + round):
            drain()
        os.kill(child.pid, signal.SIGKILL)
        child.join(LONG)
    while queue.qsize():
        assert queue.get_nowait() == (b"y" if side == "put" else b"z") * size
    queue.put_nowait(1)
    assert queue.get_nowait() == 1


def test_a_child_that_has_put_much_can_be_joined():
    queue = weir.Queue()
    child = start("fork", put_numbers, queue, "child", 50_000)
    join(child)
    assert queue.qsize() == 50_000
    assert queue.get() == ("child", 0)


def test_what_cannot_be_pickled_is_an_exception_of_put():
    queue = weir.Queue()
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        queue.put(lambda: None)
    with pytest.raises((pickle.PicklingError, TypeError)):
        queue.put(["fine", threading.Lock()])
    queue.put("next")
    assert queue.get_nowait() == "next"


def die_at_work(queue, ready):
    ready.put("begun")
    time.sleep(LONG)  # until it is killed
    queue.put("never")


def test_one_who_waits_hears_that_a_worker_was_killed():
    results, ready = weir.Queue(), weir.Queue()
    child = start("fork", die_at_work, results, ready)
    ready.get(timeout=LONG)
    os.kill(child.pid, signal.SIGKILL)
    begun = time.monotonic()
    with pytest.raises(weir.PeerDied, match=f"process {child.pid} died"):
        results.get(timeout=LONG)
    assert time.monotonic() - begun < LONG / 2
    # It is said once.
    with pytest.raises(std_queue.Empty):
        results.get(timeout=0.5)
    child.join(LONG)


def fail(queue):
    raise ValueError("this traceback belongs to a test")


@pytest.mark.parametrize("method", METHODS)
def test_one_who_waits_hears_that_a_worker_has_failed(method):
    queue = weir.Queue()
    child = start(method, fail, queue)
    with pytest.raises(weir.PeerDied, match="ended by an error"):
        queue.get(timeout=LONG)
    child.join(LONG)


def take_one(queue, ready):
    ready.put(queue.get(timeout=LONG))
    time.sleep(LONG)  # until it is killed


def test_one_who_waits_for_room_hears_that_the_consumer_died():
    queue, ready = weir.Queue(maxsize=1), weir.Queue()
    child = start("fork", take_one, queue, ready)
    queue.put("taken")
    assert ready.get(timeout=LONG) == "taken"
    queue.put("fills it")
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(weir.PeerDied, match="put 0 items and got 1"):
        queue.put("waits", timeout=LONG)
    assert queue.get_nowait() == "fills it"
    child.join(LONG)


def test_a_consumers_death_is_a_warning_to_other_consumers():
    queue, ready = weir.Queue(), weir.Queue()
    child = start("fork", take_one, queue, ready)
    queue.put("taken")
    ready.get(timeout=LONG)
    os.kill(child.pid, signal.SIGKILL)
    child.join(LONG)
    with pytest.warns(RuntimeWarning, match="got 1"), pytest.raises(std_queue.Empty):
        queue.get(timeout=1)


def test_a_child_that_ends_is_no_death():
    queue = weir.Queue()
    join(start("fork", put_numbers, queue, "child", 1))
    queue.get(timeout=LONG)
    with pytest.raises(std_queue.Empty):
        queue.get(timeout=0.6)


def test_a_signal_is_heard_by_one_who_waits():
    class Heard(Exception):
        pass
    def handler(*_):
        raise Heard
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Heard):
            weir.Queue().get(timeout=LONG)
        full = weir.Queue(maxsize=1)
        full.put(1)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Heard):
            full.put(2, timeout=LONG)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_while_one_waits():
    queue = weir.Queue()
    waiting = threading.Thread(target=lambda: queue.put(queue.get(timeout=LONG) + 1), daemon=True)
    waiting.start()
    queue.put(1)
    waiting.join(LONG)
    assert queue.get(timeout=LONG) == 2


def test_a_closed_queue_says_so():
    queue = weir.Queue()
    with queue:
        queue.put(1)
    queue.close()
    queue.join_thread()
    queue.cancel_join_thread()
    for call in (queue.get, lambda: queue.put(1), lambda: pickle.dumps(queue)):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_wrong_arguments_are_exceptions():
    with pytest.raises(weir.Invalid, match="too large"):
        weir.Queue(size_bytes=1 << 60)
    with pytest.raises(weir.Invalid, match="not a number"):
        weir.Queue().get(timeout=float("nan"))
    with pytest.raises(TypeError):
        weir.Queue().get(timeout="soon")
    with pytest.raises(OSError, match="cannot open the queue"):
        weir.Queue(_fd=-1)
    with open(os.devnull) as file, pytest.raises(OSError, match="too short"):
        weir.Queue(_fd=file.fileno())


def test_it_takes_no_file_in_dev_shm():
    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    queue = weir.Queue(size_bytes=1 << 20)
    queue.put(b"x" * (1 << 20))
    assert "memfd:weir-queue" in os.readlink(f"/proc/self/fd/{queue._fileno()}")
    after = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    assert not {name for name in after - before if "weir" in name}
