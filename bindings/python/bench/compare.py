"""weir.Queue beside what else passes objects between processes in Python.

Each row is the time of a queue of others over weir's, for the same work: producers put objects, and this
process gets them. Both have passed some objects before the clock starts, so their memory is there. The
two run right after each other, in random order; a row has the median of the ratios and a 95 % interval of
it (bootstrap). `a/a` is weir beside itself, and `memcpy` a plain copy of the same bytes, again and again.

Usage: compare.py [--quick] [--pairs N] [--seconds S] [--csv FILE] [--only SUBSTRING]
"""

import argparse
import csv
import multiprocessing
import multiprocessing.shared_memory
import os
import pickle
import random
import signal
import statistics
import sys
import time

import numpy
import weir

SIZES = {"64 B": 64, "4 KiB": 4096, "1 MiB": 1 << 20, "32 MiB": 32 << 20}
CONTEXT = multiprocessing.get_context("fork")
# A run that takes longer is given up.
LONGEST_SECONDS = 30


class PipeQueue:
    """A connection with a lock for those who put."""

    def __init__(self):
        self.reader, self.writer = CONTEXT.Pipe(duplex=False)
        self.lock = CONTEXT.Lock()

    def put(self, item):
        with self.lock:
            self.writer.send(item)

    def get(self):
        return self.reader.recv()


class Zmq:
    """PUSH and PULL over ipc, with pickles."""

    def __init__(self):
        import zmq

        self.zmq, self.path = zmq, f"ipc:///tmp/weir-compare-{os.getpid()}-{random.getrandbits(32)}"
        self.socket = None
        self.context = zmq.Context()
        self.puller = self.context.socket(zmq.PULL)
        self.puller.bind(self.path)

    def put(self, item):
        if self.socket is None:
            self.socket = self.zmq.Context().socket(self.zmq.PUSH)
            self.socket.connect(self.path)
        buffers = []
        head = pickle.dumps(item, 5, buffer_callback=buffers.append)
        self.socket.send_multipart([head, *buffers], copy=False)

    def get(self):
        head, *buffers = self.puller.recv_multipart(copy=False)
        return pickle.loads(head.buffer, buffers=[frame.buffer for frame in buffers])


def faster_fifo(size):
    import faster_fifo

    return faster_fifo.Queue(max_size_bytes=max(1 << 20, 4 * size))


class Iceoryx:
    """Publish and subscribe of bytes, without losing any; it polls, as it has no waits of its own."""

    def __init__(self, size):
        import iceoryx2

        self.iox, self.size = iceoryx2, size
        self.name = f"weir-compare-{os.getpid()}-{random.getrandbits(32)}"
        self.publisher = None
        self.node, service = self._service()
        self.subscriber = service.subscriber_builder().create()

    def _service(self):
        iox = self.iox
        import ctypes

        node = iox.NodeBuilder.new().create(iox.ServiceType.Ipc)
        builder = node.service_builder(iox.ServiceName.new(self.name))
        builder = builder.publish_subscribe(iox.Slice[ctypes.c_uint8])
        builder = builder.enable_safe_overflow(False).subscriber_max_buffer_size(8 if self.size < 1 << 20 else 2)
        builder = builder.max_publishers(4)
        return node, builder.open_or_create()

    def put(self, item):
        if self.publisher is None:
            self.put_node, service = self._service()
            builder = service.publisher_builder().initial_max_slice_len(self.size + 512)
            builder = builder.backpressure_strategy(self.iox.BackpressureStrategy.RetryUntilDelivered)
            self.publisher = builder.create()
        import ctypes

        data = pickle.dumps(item, 5)
        sample = self.publisher.loan_slice_uninit(len(data))
        ctypes.memmove(sample.payload().as_ptr(), data, len(data))
        sample.assume_init().send()

    def get(self):
        import ctypes

        until = time.monotonic() + 20
        while (sample := self.subscriber.receive()) is None:
            time.sleep(0)
            if time.monotonic() > until:
                raise TimeoutError("nothing came")
        payload = sample.payload()
        data = ctypes.string_at(payload.as_ptr(), payload.len())
        sample.delete()
        return pickle.loads(data)


class SharedMemory:
    """Two places in a `multiprocessing.shared_memory`, with semaphores: for arrays of one size."""

    def __init__(self, size):
        self.memory = multiprocessing.shared_memory.SharedMemory(create=True, size=2 * size)
        self.places = numpy.ndarray((2, size), numpy.uint8, self.memory.buf)
        self.free, self.full = CONTEXT.Semaphore(2), CONTEXT.Semaphore(0)
        self.lock, self.put_count, self.got = CONTEXT.Lock(), CONTEXT.Value("l", 0, lock=False), 0

    def put(self, item):
        self.free.acquire()
        with self.lock:
            self.places[self.put_count.value % 2] = item
            self.put_count.value += 1
            self.full.release()

    def get(self):
        self.full.acquire()
        item = self.places[self.got % 2].copy()
        self.got += 1
        self.free.release()
        return item

    def close(self):
        del self.places
        self.memory.close()
        self.memory.unlink()


def others(size, kind="array"):
    shared = {"shared_memory": lambda: SharedMemory(size)} if kind == "array" else {}
    return {
        "multiprocessing.Queue": CONTEXT.Queue,
        "multiprocessing.Pipe": PipeQueue,
        "multiprocessing.SimpleQueue": CONTEXT.SimpleQueue,
        "faster-fifo": lambda: faster_fifo(size),
        "pyzmq ipc": Zmq,
        "iceoryx2": lambda: Iceoryx(size),
        **shared,
        "a/a": weir.Queue,
    }


def warm_objects(item):
    """As many as go round the memory of each of these queues once."""
    return 4 if getattr(item, "nbytes", 0) > 4 << 20 else 16


def produce(queue, go, done, item, count):
    for _ in range(warm_objects(item)):
        queue.put(item)
    go.wait()
    for _ in range(count):
        queue.put(item)
    # Some lose what lies in a process that has ended.
    done.wait()


def seconds(make, item, producers, count):
    """The time for `count` objects of each producer."""
    queue, go, done = make(), CONTEXT.Event(), CONTEXT.Event()
    children = [
        CONTEXT.Process(target=produce, args=(queue, go, done, item, count), daemon=True)
        for _ in range(producers)
    ]
    signal.alarm(LONGEST_SECONDS)
    try:
        for child in children:
            child.start()
        for _ in range(warm_objects(item) * producers):
            queue.get()
        begun = time.perf_counter()
        go.set()
        for _ in range(count * producers):
            queue.get()
        taken = time.perf_counter() - begun
    finally:
        signal.alarm(0)
        done.set()
        for child in children:
            child.join(1)
            child.kill()
        getattr(queue, "close", lambda: None)()
    return taken


def give_up(*_):
    raise TimeoutError("it takes too long")


def memcpy(size, count):
    one, two = numpy.zeros(size, numpy.uint8), numpy.ones(size, numpy.uint8)
    begun = time.perf_counter()
    for _ in range(count):
        numpy.copyto(two, one)
    return time.perf_counter() - begun


def interval(ratios):
    """The median, and a 95 % interval of it."""
    medians = sorted(
        statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(2000)
    )
    return statistics.median(ratios), medians[50], medians[1949]


def works():
    for name, size in SIZES.items():
        yield name, "array", size, numpy.arange(size, dtype=numpy.uint8)
    for name, size in SIZES.items():
        yield name, "bytes", size, b"x" * size
    small = {"step": 7, "loss": 0.25, "name": "a worker", "tags": [1, 2, 3]}
    yield "small", "object", 64, small
    yield "list of 40", "object", 4096, [{**small, "step": step, "tags": [step] * 3} for step in range(40)]


# What a quick run compares.
QUICK = ("64 B array x1", "4 KiB array x1", "1 MiB array x1", "32 MiB array x1", "small object x1")


def compare(pairs, budget, is_wanted):
    for name, kind, size, item in works():
        for producers in (1, 4):
            row = f"{name} {kind} x{producers}"
            if not is_wanted(row):
                continue
            # As many as fit into the time, by a first try of so many that their time shows beside that
            # in which the producers wake.
            count = 4 if size > 4096 else 1000
            while (taken := seconds(weir.Queue, item, producers, count)) < budget / 2 and count < 1e5:
                count = max(count + 1, int(count * min(10, budget / max(taken, 1e-6))))
            candidates = others(size, kind)
            if producers == 1 and kind == "array":
                candidates["memcpy"] = None
            for other, make in candidates.items():
                yield row, other, count, ratios(make, item, size, producers, count, pairs)


def ratios(make, item, size, producers, count, pairs):
    found = []
    try:
        for _ in range(pairs):
            both = [0, 1]
            random.shuffle(both)
            times = [0.0, 0.0]
            for which in both:
                if which == 0:
                    times[0] = seconds(weir.Queue, item, producers, count)
                elif make is None:
                    times[1] = memcpy(size, count)
                else:
                    times[1] = seconds(make, item, producers, count)
            found.append(times)
    except Exception as error:
        print(f"SKIPPED: {type(error).__name__}: {error}", file=sys.stderr)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="some rows, in less than 3 minutes")
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--seconds", type=float, help="that weir takes for a run")
    parser.add_argument("--csv")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    signal.signal(signal.SIGALRM, give_up)
    pairs = given.pairs or (5 if given.quick else 9)
    budget = given.seconds or (0.03 if given.quick else 0.1)
    is_wanted = lambda row: given.only in row and (not given.quick or row in QUICK)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs", file=sys.stderr)
    lines = [["work", "beside", "weir_us", "other_us", "ratio", "low", "high", "pairs"]]
    for row, other, count, times in compare(pairs, budget, is_wanted):
        if not times:
            continue
        objects = count * int(row.rsplit("x", 1)[1])
        ratio, low, high = interval([theirs / ours for ours, theirs in times])
        own, their = (statistics.median(each) / objects * 1e6 for each in zip(*times))
        line = [row, other, own, their, ratio, low, high]
        lines.append([f"{x:.4g}" if isinstance(x, float) else x for x in line] + [len(times)])
        print(*lines[-1], sep="\t", flush=True)
        if given.csv:
            with open(given.csv, "w", newline="") as file:
                csv.writer(file).writerows(lines)


if __name__ == "__main__":
    main()
