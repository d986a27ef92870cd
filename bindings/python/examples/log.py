"""A hundred writers and a log."""

import multiprocessing
import os
import tempfile
import weir


def work(name, number):
    with weir.PortWriter(name) as log:
        for step in range(10):
            log.send(f"worker {number}: step {step}".encode())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        name = os.path.join(directory, "log")
        with weir.Port(name) as port:
            workers = [multiprocessing.Process(target=work, args=(name, n)) for n in range(100)]
            for worker in workers:
                worker.start()
            lines = ended = 0
            while ended < len(workers):
                message = port.receive(timeout=60)
                if message.ending:
                    ended += 1
                else:
                    lines += 1
            for worker in workers:
                worker.join()
            print(lines, "lines of", ended, "writers")
