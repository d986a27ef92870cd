"""Two processes and a queue of arrays."""

import multiprocessing
import numpy
import weir


def produce(frames):
    for number in range(100):
        frames.put(numpy.full((480, 640), number, numpy.uint8))
    frames.put(None)


if __name__ == "__main__":
    frames = weir.Queue(maxsize=10)
    producer = multiprocessing.Process(target=produce, args=(frames,))
    producer.start()
    total = 0
    while (frame := frames.get()) is not None:
        total += int(frame[0, 0])
    producer.join()
    print(total)
